"""Do something to files within limits of memory and time: ``python -m tests.hostile.bounded``.

Arguments: ACTION FILE... Prints a line of JSON a file: ``[name, error class or "", what it said]``.
The kernel holds the limits, so nothing that is done here can pass them.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Callable
from pathlib import Path

from engine.base.errors import EngineError

ADDRESSES = 3 << 30
SECONDS = 60


def look(path: Path) -> None:
    from engine.frontends.onnx import inspect_file

    inspect_file(path)


def load(path: Path) -> None:
    from engine.frontends.onnx import load_onnx

    load_onnx(path)


def build(path: Path) -> None:
    from engine.pipeline.build import build as run
    from engine.pipeline.pipeline import Pipeline
    from engine.pipeline.stages import STAGES
    from engine.recipe import Recipe

    run(Pipeline(Recipe.from_values({"model": str(path), "do_quantization": False}), STAGES))


def run(path: Path) -> None:
    """Load a model and run its float graph once, on numbers between -1 and 1."""
    import numpy as np

    from engine.frontends.onnx import load_onnx
    from engine.graph.execute import Session

    graph = load_onnx(path).graph
    rng = np.random.default_rng(0)
    feeds = {x.name: rng.uniform(-1, 1, x.shape).astype(x.dtype) for x in graph.inputs}
    Session(graph).run(feeds)


ACTIONS: dict[str, Callable[[Path], None]] = {do.__name__: do for do in (look, load, build, run)}


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    action = ACTIONS[sys.argv[1]]
    for name in sys.argv[2:]:
        kind, said = "", ""
        try:
            action(Path(name))
        except EngineError as error:
            kind, said = type(error).__name__, error.what
        print(json.dumps([Path(name).stem, kind, said]), flush=True)


if __name__ == "__main__":
    main()
