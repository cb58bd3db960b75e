"""Take damaged models through the command line, in one process: ``-m tests.hostile.attack``.

Arguments: FOLDER, then numbers of mutants or ``FIRST:END``. Requests go through the worker's own
functions and its protocol's encoding, without the process in between, so that thousands fit in
minutes. Prints a line of JSON a fault, and before each mutant writes its number to ``FOLDER/at``,
so that a crash of native code has a name. The kernel bounds memory, an alarm the time of one
mutant.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import click
import numpy as np
import onnx

from engine.base.errors import EngineError
from rknntui.cli.errors import failed
from rknntui.cli.root import cli
from tests.hostile.inside import COMMANDS, inside
from tests.hostile.mutate import mutant
from tests.hostile.seeds import seeds

ADDRESSES = 4 << 30
SECONDS = 20


class TooLongError(BaseException):
    """A mutant took more than ``SECONDS``."""


def commands(folder: Path, number: int) -> Iterator[list[str]]:
    """What is done with ``m.onnx``: a look always, and one of the rest."""
    model = str(folder / "m.onnx")
    yield ["inspect", model, *(["--json"] if number % 2 else [])]
    fed = [f"-i{folder / f'{n}.npy'}" for n in range(len(list(folder.glob("*.npy"))))]
    quantized = ["--dataset", str(folder / "d.txt")]
    yield [
        ["simulate", model, "--no-quantize", *fed],
        ["build", model, *quantized],
        ["simulate", model, *quantized, *fed],
        ["accuracy", model, *quantized],
    ][number % 4]


def feed(proto: onnx.ModelProto, folder: Path) -> None:
    """A sample for the inputs as the file declares them, as far as it can be."""
    constants = {tensor.name for tensor in proto.graph.initializer}
    for old in folder.glob("*.npy"):
        old.unlink()
    names = []
    for value in proto.graph.input:
        if value.name in constants:
            continue
        kind = value.type.tensor_type
        dims = [dim.dim_value if dim.dim_value > 0 else 1 for dim in kind.shape.dim]
        try:
            dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        except (KeyError, TypeError):
            dtype = np.dtype(np.float32)
        if int(np.prod(dims, dtype=np.float64)) > 100_000 or dtype.kind not in "fiub":
            dims, dtype = [1], np.dtype(np.float32)
        values = np.random.default_rng(0).uniform(-2, 2, dims)
        names.append(f"{len(names)}.npy")
        np.save(folder / names[-1], values.astype(dtype))
    (folder / "d.txt").write_text(" ".join(names) + "\n")


def attempt(arguments: list[str], seen: Counter[str]) -> list[str] | None:
    """Run a command; None where it ended as documented, else what it left."""
    seen["refused"] += 1
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            cli.main(args=list(arguments), prog_name="rknntui", standalone_mode=False)
    except click.UsageError:
        return None
    except EngineError as error:
        return [str(error)] if failed_code(error) == 70 else None
    except BaseException as error:  # noqa: BLE001 - whatever else comes out is what is looked for
        return [repr(error)[:300], *traceback.format_exc().strip().split("\n")[-24:]]
    seen.update(done=1, refused=-1)
    return None


def failed_code(error: BaseException) -> int:
    with contextlib.redirect_stderr(io.StringIO()):
        return failed(error, as_json=False)


def _alarm(_number: int, _frame: object) -> None:
    raise TooLongError


def span(text: str) -> range:
    """The numbers of an argument: one, or those before the second of two."""
    first, _, end = text.partition(":")
    return range(int(first), int(end or int(first) + 1))


def main() -> None:
    folder, numbers = Path(sys.argv[1]), [*chain.from_iterable(map(span, sys.argv[2:]))]
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    signal.signal(signal.SIGALRM, _alarm)
    os.chdir(folder)
    for command in COMMANDS:
        command.with_worker = inside  # type: ignore[attr-defined]
    found, seen = seeds(), Counter[str]()
    for number in numbers:
        proto = mutant(found[number % len(found)], number)
        (folder / "m.onnx").write_bytes(proto.SerializeToString())
        feed(proto, folder)
        (folder / "at").write_text(str(number))
        for arguments in commands(folder, number):
            signal.setitimer(signal.ITIMER_REAL, SECONDS)
            try:
                fault = attempt(arguments, seen)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            if fault is not None:
                print(json.dumps([number, arguments[0], fault]), flush=True)
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
