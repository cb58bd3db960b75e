"""Our end of tests/vendor/driver.py: the vendor's toolkit, driven as a program."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["Toolkit"]


class Toolkit:
    """One process of the toolkit; models stay built under the names that they were given."""

    def __init__(self, python: Path, folder: Path) -> None:
        self._folder = folder
        self._log = folder / "log.txt"
        home = folder / "home"
        home.mkdir()
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        environment |= {"HOME": str(home), "TMPDIR": str(home), "ORT_DISABLE_TELEMETRY": "1"}
        driver = Path(__file__).with_name("driver.py")
        self._process = subprocess.Popen(
            [str(python), "-B", str(driver), str(self._log)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
            env=environment,
        )
        self._count = 0

    def close(self) -> None:
        """End the process."""
        if self._process.stdin:
            self._process.stdin.close()
        self._process.wait(timeout=30)

    def _ask(self, **request: Any) -> dict[str, Any]:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        answer = json.loads(line) if line else {"ok": False, "error": "the toolkit ended"}
        if not answer["ok"]:
            end = self._log.read_text(encoding="utf-8", errors="replace")[-1500:]
            raise AssertionError(f"{request['do']}: {answer['error']}\n{end}")
        return dict(answer)

    def folder(self) -> Path:
        """A new folder for files."""
        self._count += 1
        made = self._folder / f"{self._count:03d}"
        made.mkdir()
        return made

    def build(
        self,
        name: str,
        model: Path,
        config: dict[str, Any],
        calibration: np.ndarray | None = None,
        *,
        verbose: bool = False,
    ) -> str:
        """Load and build a model.

        Args:
            name: to ask for it later.
            model: ONNX file.
            config: of ``RKNN.config``.
            calibration: pixels (N, C, H, W) uint8, for quantization by the toolkit; None keeps the
                model's own.
            verbose: whether the compiler prints its tables.

        Returns:
            What the toolkit printed.
        """
        dataset = None
        if calibration is not None:
            dataset = self.folder() / "dataset.txt"
            names = self._files(dataset.parent, [[sample[None]] for sample in calibration])
            dataset.write_text("".join(f"{row[0]}\n" for row in names), encoding="utf-8")
        start = self._log.stat().st_size if self._log.exists() else 0
        self._ask(
            do="build",
            name=name,
            model=str(model),
            config=config,
            dataset=None if dataset is None else str(dataset),
            verbose=verbose,
        )
        with self._log.open("rb") as stream:
            stream.seek(start)
            return stream.read().decode("utf-8", errors="replace")

    def release(self, name: str) -> None:
        """Forget a model that was built."""
        self._ask(do="release", name=name)

    def export(self, name: str) -> Path:
        """The compiled model, as a file."""
        path = self.folder() / "model.rknn"
        self._ask(do="export", name=name, path=str(path))
        return path

    def infer(self, name: str, samples: Sequence[Sequence[np.ndarray]]) -> list[list[np.ndarray]]:
        """Outputs of the toolkit's simulator for every sample (a list of NCHW inputs each)."""
        folder = self.folder()
        files = self._files(folder, samples)
        out = self.folder()
        answer = self._ask(do="infer", name=name, samples=files, layout="nchw", out=str(out))
        return [
            [np.load(out / f"{index}_{output}.npy") for output in range(answer["outputs"])]
            for index in range(len(files))
        ]

    def analyse(self, name: str, pixels: np.ndarray) -> Path:
        """The folder of tensors that accuracy_analysis writes for one input (1, C, H, W)."""
        folder = self.folder()
        (row,) = self._files(folder, [[pixels]])
        self._ask(do="analyse", name=name, inputs=row, out=str(folder / "snapshot"))
        return folder / "snapshot" / "simulator" / "npy"

    def _files(self, folder: Path, samples: Sequence[Sequence[np.ndarray]]) -> list[list[str]]:
        rows = []
        for index, sample in enumerate(samples):
            row = [folder / f"input_{index}_{number}.npy" for number in range(len(sample))]
            for path, array in zip(row, sample, strict=True):
                np.save(path, array)
            rows.append([str(path) for path in row])
        return rows
