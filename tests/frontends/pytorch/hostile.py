"""Scripted models that name what they should not, made of a real file of torch by its records."""

from __future__ import annotations

import zipfile
from pathlib import Path

from engine.frontends.pytorch.pickles import Archive

SAVES = {
    "save": 'torch.save(x, "{}")',
    "save by space": 'ops.aten.save(x, "{}")',
    "save by another name of aten": 'torch.autograd.save(x, "{}")',
    "save under a name": 'f = torch.save\n    f(x, "{}")',
    "save of a module under a name": 't = torch\n    t.save(x, "{}")',
    "save of ops under a name": 'o = ops.aten\n    o.save(x, "{}")',
    "save by getattr": 'getattr(torch, "save")(x, "{}")',
    "save in a list": 'y = [torch.save(a, "{}") for a in [x]]',
    "save in a task": 'y = torch.wait(fork(torch.save, x, "{}"))',
    "shared map": 'y = torch.from_file("{}", True, 4, dtype=0)\n    print(torch.fill_(y, 7))',
}
"""What writes to the file ``{}``, each tried: torch runs all of them."""

OTHERS = {
    "read": 'y = torch.from_file("/etc/passwd", None, 100, dtype=0)',
    "member": 'x.save("{}")',
    "member by getattr": 'getattr(x, "save")("{}")',
    "with": 'with x.save("{}"):\n      pass',
    "remote": 'y = ops.prim.rpc_sync("x", "y", [])',
    "python": "y = ops.prim.PythonOp(x)",
    "library": "y = ops.torchvision.nms(x, x, 0.5)",
    "native class": 'y = __torch__.torch.classes.c10d.FileStore("{}")',
    "unknown function": 'y = __torch__.os.system("{}")',
    "lambda": "y = lambda a: a",
    "nested function": "def f(a: Tensor) -> Tensor:\n      return a",
    "format": 'y = f"{{x}}"',
    "name": "y = open",
}


_FORWARD = "    x: Tensor) -> Tensor:\n"
_SETSTATE = "    state: Tuple[Tensor, bool]) -> NoneType:\n"
_CODE = "code/__torch__.py"


def in_forward(records: dict[str, bytes], line: str) -> dict[str, bytes]:
    """With a line at the beginning of the outermost ``forward``."""
    return _after(records, _FORWARD, line)


def in_setstate(records: dict[str, bytes], line: str) -> dict[str, bytes]:
    """With a line in ``__setstate__``, which torch runs while it loads."""
    return _after(records, _SETSTATE, f"x = state[0]\n    {line}")


def unused(records: dict[str, bytes], line: str) -> dict[str, bytes]:
    """With a function in a file of its own that nothing calls."""
    text = f"def idle(x: Tensor) -> Tensor:\n    {line}\n    return x\n"
    return records | {"code/__torch__/idle.py": text.encode()}


def _after(records: dict[str, bytes], place: str, line: str) -> dict[str, bytes]:
    text = records[_CODE].decode()
    assert text.count(place) == 1
    return records | {_CODE: text.replace(place, f"{place}    {line}\n").encode()}


def read_records(path: Path) -> dict[str, bytes]:
    """The records of a file of torch.jit.save."""
    with Archive(path) as archive:
        return {name: archive.read(name, 1 << 24) for name in archive.records}


def write_pairs(path: Path, pairs: list[tuple[str, bytes]]) -> Path:
    """An archive of these entries, whose names may come twice."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in pairs:
            archive.writestr(name, data)
    return path
