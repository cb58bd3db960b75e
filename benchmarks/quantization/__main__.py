"""Ours against onnxruntime.quantization (MinMax, per channel, U8S8), in turn in one process.

Usage: python -m benchmarks.quantization [--models rfb320 digits] [--pairs 200] [--builds 5]
       [--json FILE]

Needs the shared folder with `bench/` and `zoo/` beside the checkout, or RKNNTUI_ZOO; says so and
ends with 0 where there is none. Times depend on the machine and its load: compare within one run.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

os.environ["ORT_DISABLE_TELEMETRY"] = "1"

from benchmarks.clock import Figures
from benchmarks.quantization import measure
from benchmarks.quantization.builders import (
    MODELS,
    Bench,
    build_ours,
    build_peer,
    find_bench,
    load_work,
)


def _decibels(values: list[float]) -> str:
    return ";".join(f"{value:.2f}" for value in values)


def _row(model: str, r: Figures) -> str:
    return (
        f"{model:8} {_decibels(r['sqnr_ours']):>12} {_decibels(r['sqnr_peer']):>12} "
        f"{_decibels(r['sqnr_vendor_normal']):>12} "
        f"{r['build_cpu_s']:7.3f} {r['peer_build_cpu_s']:7.3f} {r['build_ratio']:6.2f} "
        f"{r['against_peer']['ms']:7.3f} {r['against_peer']['ratio']:6.3f} "
        f"{r['peer_against_itself']['ratio']:6.3f} {r['simulator_against_peer']['ratio']:6.3f} "
        f"{r['against_float']['ratio']:6.3f} {r['memory']['above_mb']:6.1f} "
        f"{r['integer_layers']:3}/{r['layers']}"
    )


_HEAD = (
    f"{'model':8} {'SQNR ours':>12} {'ort':>12} {'vendor':>12} {'cpu s':>7} {'ort':>7} "
    f"{'ratio':>6} {'sim ms':>7} {'/ort':>6} {'noise':>6} {'api':>6} {'/float':>6} {'MB':>6} layers"
)


def _measure(bench: Bench, model: str, folder: Path, pairs: int, builds: int) -> Figures:
    work = load_work(bench, model, folder)
    qdq, peer = build_ours(work), build_peer(bench, work)
    return {
        **measure.build_cpu(bench, work, builds),
        **measure.simulation(bench, work, qdq, peer, pairs),
        "memory": measure.memory(model),
    }


def main() -> int:
    """Measure, print a table, and with --json write everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--pairs", type=int, default=200, help="of timed samples")
    parser.add_argument("--builds", type=int, default=5, help="alternated pairs of builds")
    parser.add_argument("--json", type=Path, help="where all figures go")
    parser.add_argument("--memory-of", choices=MODELS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    bench = find_bench()
    if isinstance(bench, str):
        print(f"skipped: {bench}", file=sys.stderr)
        return 0
    with tempfile.TemporaryDirectory(prefix="rknntui-bench-") as name:
        folder = Path(name)
        warm = load_work(bench, "digits", folder / "warm", limit=2)
        build_ours(warm)  # lazy imports are not part of a build
        if args.memory_of:
            print(json.dumps(measure.memory_here(load_work(bench, args.memory_of, folder))))
            return 0
        build_peer(bench, warm)
        print(_HEAD)
        results = {}
        for model in args.models:
            results[model] = _measure(bench, model, folder, args.pairs, args.builds)
            print(_row(model, results[model]), flush=True)
    print(
        "cpu s: median CPU seconds of a build; ratio: median of pairwise ratios. sim ms: one\n"
        "sample, one thread. /ort: both QDQ models in sessions of the same options; noise: the\n"
        "peer's against itself; api: Simulator.run against the peer's bare session; MB: peak of a\n"
        "build above imports."
    )
    if args.json:
        args.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
