"""Models of real size: ours, rknn-toolkit2 and onnxruntime.quantization in one run, as ratios.

Usage: python -m benchmarks.realsize --work DIR --python-vendor VENDOR/bin/python
       [--models yolov8n resnet50] [--only ours:normal vendor:mmse] [--samples 20]
       [--slow-samples 8] [--repeat 1] [--report]

The graphs are those of `zoo/shapes/published` (the shared folder beside the checkout, or
RKNNTUI_ZOO) with weights that weights.py draws; samples are photographs. Every measurement is a
process of its own and one line of DIR/results.jsonl; what stands there is not measured again, so
that a run that was stopped goes on. --report prints the tables of what is there and measures
nothing. Leave out --python-vendor to skip the vendor.

`mmse` takes the vendor minutes a sample: it, our `mmse` and our `accurate` beside it see
--slow-samples samples, the others --samples. Imports, decoding of pictures and warm-up are not
timed. CPU is user and system time of the process and its children; memory is the peak of the
largest process of the measurement, imports included. Times of a shared machine are noisy: compare
ratios within one run.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.clock import Figures
from benchmarks.realsize.report import report
from benchmarks.zoo import REPOSITORY, zoo_folder

HERE = Path(__file__).resolve().parent
MODELS = ("yolov8n", "resnet50", "mobilesam", "yolov8m", "yolox_s")
SLOW = {"mmse": ("yolov8n", "resnet50")}
_BOTH = ("normal", "proposal")
_SLOW_SAMPLES = ("mmse", "accurate")


def _wanted(models: list[str], *, vendor: bool) -> Iterator[tuple[str, str, str]]:
    """(model, who, what) in the order that they are measured: sides in turn."""
    for model in models:
        yield model, "ours", "floats"
        for what in _BOTH:
            if vendor:
                yield model, "vendor", what
            yield model, "ours", what
        yield model, "ort", "minmax"
        if vendor:
            yield model, "vendor", "kl_divergence"
        yield model, "ours", "kl_divergence"
    for model in models:
        if model in SLOW["mmse"]:
            yield model, "ours", "mmse"
            yield model, "ours", "accurate"
            yield model, "ours", "propose"
            yield model, "ours", "search"
            if vendor:
                yield model, "vendor", "mmse"


def _prepare(zoo: Path, model: str, data: Path, counts: list[int]) -> Figures:
    """In a process of its own: this one stays small, as its peak is seen in its children's."""
    code = (
        "import json, sys\nfrom pathlib import Path\n"
        "from benchmarks.realsize.samples import MODELS, prepared\n"
        "zoo, data, counts = Path(sys.argv[1]), Path(sys.argv[3]), json.loads(sys.argv[4])\n"
        "path = prepared(zoo, sys.argv[2], data, counts)\n"
        "spec = MODELS[sys.argv[2]]\n"
        "print(json.dumps({'model': str(path), 'mean': spec.mean, 'std': spec.std}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-B", "-c", code, str(zoo), model, str(data), json.dumps(counts)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    figures: Figures = json.loads(done.stdout)
    return figures


def _environment(who: str) -> dict[str, str]:
    """The vendor's as it is; ours as a worker process has it."""
    environment = dict(os.environ) | {"ORT_DISABLE_TELEMETRY": "1"}
    if who != "vendor":
        caps = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        environment |= dict.fromkeys(caps, "1") | {"PYTHONPATH": str(REPOSITORY)}
    return environment


def _measure(python: str, script: str, job: Figures, work: Path, name: str) -> Figures:
    path = work / f"{name}.json"
    path.write_text(json.dumps(job), encoding="utf-8")
    with (work / f"{name}.out").open("wb") as out, (work / f"{name}.err").open("wb") as err:
        child = subprocess.Popen(
            [python, "-B", str(HERE / script), str(path)],
            cwd=work,
            stdout=out,
            stderr=err,
            env=_environment(job["who"]),
        )
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        lines = (work / f"{name}.err").read_text(encoding="utf-8", errors="replace").splitlines()
        return {"failed": lines[-1] if lines else f"exit code {child.returncode}"}
    figures: Figures = json.loads((work / f"{name}.out").read_text(encoding="utf-8"))
    figures["process_cpu_s"] = used.ru_utime + used.ru_stime
    figures["largest_process_mb"] = max(used.ru_maxrss / 1024, figures["peak_mb"])
    return figures


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, required=True, help="the only folder written to")
    parser.add_argument("--python-vendor", help="interpreter of the vendor's environment")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--only", nargs="+", metavar="WHO:WHAT", help="as ours:normal vendor:mmse")
    parser.add_argument("--samples", type=int, default=20)
    parser.add_argument("--slow-samples", type=int, default=8)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--report", action="store_true", help="print tables, measure nothing")
    return parser.parse_args()


def main() -> int:
    """Measure what is missing, then print the tables."""
    args = _arguments()
    work = args.work.absolute()
    results = work / "results.jsonl"
    zoo = zoo_folder()
    if not (zoo / "shapes" / "published").is_dir() and not args.report:
        print(
            "skipped: there is no model zoo beside the checkout: set RKNNTUI_ZOO", file=sys.stderr
        )
        return 0
    work.mkdir(parents=True, exist_ok=True)
    rows = []
    if results.exists():
        rows = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
    pythons = {"ours": sys.executable, "ort": sys.executable, "vendor": args.python_vendor}
    scripts = {"ours": "ours.py", "ort": "peer.py", "vendor": "vendor.py"}
    turns = [] if args.report else range(args.repeat)
    for turn in turns:
        for model, who, what in _wanted(args.models, vendor=bool(args.python_vendor)):
            if args.only and f"{who}:{what}" not in args.only:
                continue
            count = args.slow_samples if what in _SLOW_SAMPLES else args.samples
            key = {"model": model, "who": who, "what": what, "samples": count, "turn": turn}
            if any(key.items() <= row.items() for row in rows):
                continue
            job = _prepare(zoo, model, work / "data", [args.samples, args.slow_samples])
            job |= {
                "who": who,
                "what": what,
                "dataset": str(work / "data" / f"{model}-{count}.txt"),
            }
            begun = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
            load = os.getloadavg()[0]
            name = f"{who}-{model}-{what}-{turn}"
            row = {**key, "begun": begun, "load": load}
            row |= _measure(pythons[who], scripts[who], job, work, name)
            rows.append(row)
            with results.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(row) + "\n")
            shown = {k: round(v, 2) for k, v in row.items() if k in ("all_cpu_s", "peak_mb")}
            print(f"{name}: {row.get('failed') or shown}", file=sys.stderr, flush=True)
    print(report(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
