"""Damaged files taken through what the worker answers: whole builds, lists, looks, records.

The readers of ``tests/fuzz/readers.py`` stop at a graph; here the numbers of a damaged file are
computed with. Every answer must be plain JSON that a front end can show.
"""

from __future__ import annotations

import hashlib
import io
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from engine.base.events import NullReporter
from rknntui.demo import demo_folder
from tests.fuzz.readers import Attack, Case, single

__all__ = ["HANDLERS"]

SAMPLES = 2


def asked(home: str, **params: Any) -> None:
    """Call a handler as the worker does, and encode its answer."""
    from engine.base.peers.far import encode
    from engine.jobs.worker import _resolve
    from engine.services.registry import QUERIES, TASKS
    from engine.services.state import WORKER_STATE

    WORKER_STATE.clear()
    if home in TASKS:
        encode(_resolve(TASKS[home])(params, NullReporter()))
    else:
        encode(_resolve(QUERIES[home])(params))


def listing(folder: Path) -> dict[str, Any]:
    """A dataset of the demo's first pictures."""
    path = folder.parent / "demo.txt"
    if not path.exists():
        names = [demo_folder() / "calibration" / f"{n:03d}.png" for n in range(SAMPLES)]
        path.write_text("".join(f"{name}\n" for name in names))
    return {"dataset": str(path)}


def build(_zoo: Path) -> Attack:
    """A model is looked at, built in float and in integers, and simulated."""

    def read(path: Path) -> None:
        asked("open", path=str(path), recipe={"model": str(path)})
        recipe = {"model": str(path), **listing(path.parent)}
        picture = str(demo_folder() / "calibration" / "000.png")
        asked("simulate", recipe=recipe | {"do_quantization": False}, inputs=[picture])
        asked("build", recipe=recipe)

    return Attack(read, (single(demo_folder() / "digits_demo.onnx"),))


def made() -> Path:
    """A folder for seeds, with a folder in it for a dataset's list to lie beside."""
    folder = Path(tempfile.mkdtemp(prefix="seeds-"))
    (folder / "work").mkdir()
    return folder


def picture(form: str, mode: str, **options: Any) -> bytes:
    values = np.random.default_rng(0).integers(0, 255, (16, 16, 3), dtype=np.uint8)
    stream = io.BytesIO()
    Image.fromarray(values).convert(mode).save(stream, form, **options)
    return stream.getvalue()


def pictures(_zoo: Path) -> Attack:
    """A dataset of pictures and arrays is checked and previewed."""

    def array(values: np.ndarray) -> bytes:
        stream = io.BytesIO()
        np.save(stream, values)
        return stream.getvalue()

    files = {
        "d.txt": (b"a.png\nb.jpg\nc.bmp\nd.npy\n", True),
        "a.png": (picture("PNG", "L"), False),
        "b.jpg": (picture("JPEG", "RGB"), False),
        "c.bmp": (picture("BMP", "RGB"), False),
        "d.npy": (array(np.ones((1, 1, 8, 8))), False),
    }

    def read(path: Path) -> None:
        model = str(demo_folder() / "digits_demo.onnx")
        recipe = {"model": model, "dataset": str(path)}
        asked("dataset.check", recipe=recipe)
        for index in range(4):
            asked("dataset.preview", recipe=recipe, index=index)

    return Attack(read, (Case("d.txt", files),))


def labels(_zoo: Path) -> Attack:
    """Labelled samples are scored: a list of pictures, and arrays in an npz."""
    names = [demo_folder() / "calibration" / f"{n:03d}.png" for n in range(SAMPLES)]
    rows = "".join(f"{name} {n}\n" for n, name in enumerate(names)).encode()
    stream = io.BytesIO()
    samples = np.zeros((SAMPLES, 8, 8), np.uint8)
    np.savez(stream, samples=samples, labels=np.arange(SAMPLES))
    cases = (
        Case("labels.txt", {"labels.txt": (rows, True)}),
        Case("test.npz", {"test.npz": (stream.getvalue(), False)}),
    )

    def read(path: Path) -> None:
        model = str(demo_folder() / "digits_demo.onnx")
        asked("evaluate", recipe={"model": model, **listing(path.parent)}, labels=str(path))

    return Attack(read, cases)


def hybrid(_zoo: Path) -> Attack:
    """The second step reads what the first wrote, in files that belong together."""
    cases = []
    for dtype, structure in (("w8a8", "model"), ("asymmetric_quantized-u8", "json")):
        folder = made()
        stem = f"demo_{structure}"
        shutil.copy(demo_folder() / "digits_demo.onnx", folder / f"{stem}.onnx")
        recipe = {
            "model": str(folder / f"{stem}.onnx"),
            "quantized_dtype": dtype,
            **listing(folder / "work"),
        }
        asked("hybrid.step1", recipe=recipe, folder=str(folder))
        main = f"{stem}.{structure}"
        names = (main, f"{stem}.quantization.cfg")
        files = {name: (folder / name).read_bytes() for name in names}
        with zipfile.ZipFile(folder / f"{stem}.data") as archive:
            inner = {n: archive.read(n) for n in archive.namelist()}
        files |= {f"{stem} {n}".replace("/", "@"): content for n, content in inner.items()}
        texts = (".cfg", ".json")
        cases.append(Case(main, {n: (files[n], n.endswith(texts)) for n in sorted(files)}))

    def read(path: Path) -> None:
        data = path.parent.parent / "damaged.data"
        digest = hashlib.sha256(path.read_bytes()).hexdigest().encode()
        before = hashlib.sha256(seeds[path.name]).hexdigest().encode()
        with zipfile.ZipFile(data, "w") as archive:
            for name in of_case[path.name]:
                content = (path.parent / name).read_bytes()
                inside = name.partition(" ")[2].replace("@", "/")
                archive.writestr(inside, content.replace(before, digest))
        asked(
            "hybrid.step2",
            model=str(path),
            data=str(data),
            config=str(path.with_suffix(".quantization.cfg")),
            path=str(path.parent.parent / "out.rknn"),
            force=True,
        )

    seeds = {case.main: case.files[case.main][0] for case in cases}
    of_case = {case.main: [n for n in case.files if " " in n] for case in cases}
    return Attack(read, tuple(cases))


def remade(_zoo: Path) -> Attack:
    """Sections of a container of ours, put together anew so that every checksum holds, and run."""
    from engine.base.events import NullReporter
    from engine.container.blob import pack, unpack
    from engine.pipeline.build import build
    from engine.services.build import simulate
    from engine.services.model import open as open_model
    from engine.services.state import get_pipeline, recipe_of
    from rknntui.demo import demo_recipe

    built = build(get_pipeline(recipe_of(demo_recipe()), NullReporter()))
    frame = unpack(built.container, "seed")
    files = {name: (bytes(part), part[:1] in b"{[") for name, part in frame.sections.items()}
    picture = str(next((demo_folder() / "calibration").glob("*.png")))
    layers = bytes(frame.layers)

    def read(path: Path) -> object:
        whole = path.with_name("m.rknn")
        whole.write_bytes(pack({n: path.with_name(n).read_bytes() for n in files}, layers))
        open_model({"path": str(whole)})
        return simulate({"path": str(whole), "inputs": [picture]}, NullReporter())

    return Attack(read, (Case("graph", files),))


def records(_zoo: Path) -> Attack:
    """The record of a job, listed and drawn as the workbench does; a damaged one is a bad row."""
    from engine.base.errors import WorkerError
    from engine.jobs.history import record_of
    from engine.jobs.record import jobs_folder, new_record
    from engine.jobs.tail import EventTail
    from engine.wire.project_tables import JOBS
    from rknntui.session.job_view_model import JobView

    recorder = new_record()
    recorder.start("build", "build m.onnx", {"recipe": {"model": "m.onnx"}})
    from engine.base.events import LogLine, Progress, StageFinished, StageStarted

    for event in (StageStarted("load", "Load", 0, 2), Progress("load", 1, 3)):
        recorder.emit(event)
    for event in (LogLine("a line", "warning"), StageFinished("load", 0.5)):
        recorder.emit(event)
    recorder.end("done", result={"outputs": [1, 2]})
    names = ("job.json", "end.json", "events.jsonl")
    files = {name: ((jobs_folder() / recorder.id / name).read_bytes(), True) for name in names}

    def read(path: Path) -> object:
        record = record_of(path.parent)
        if record is None:
            return None
        view = JobView(record.id, record.method, record.title, record.started, record.params)
        for _, event in EventTail(path.parent).read():
            view.apply(event)
        shown = (
            JOBS.column("started").show(record),
            view.fraction,
            (record.finished or 0.0) - record.started,
        )
        if record.state == "lost":
            raise WorkerError(str((record.error or {})["what"]), remedy="Look at the row.")
        return shown

    return Attack(read, (Case("job.json", files),))


HANDLERS: Mapping[str, Callable[[Path], Attack]] = {
    read.__name__: read for read in (build, pictures, labels, hybrid, remade, records)
}
"""Each mutant is a whole job: there are fewer of them than of those that are only read."""
