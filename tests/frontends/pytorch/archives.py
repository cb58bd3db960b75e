"""TorchScript archives and pickles of PyTorch, written by hand: no torch is needed for them."""

from __future__ import annotations

import zipfile
from pathlib import Path

FORMAT = b"\x80\x02"
STOP = b"."


def text(value: str) -> bytes:
    data = value.encode()
    return b"X" + len(data).to_bytes(4, "little") + data


def number(value: int) -> bytes:
    return b"J" + value.to_bytes(4, "little", signed=True)


def name(module: str, attribute: str) -> bytes:
    return f"c{module}\n{attribute}\n".encode()


def row(*values: bytes) -> bytes:
    return b"(" + b"".join(values) + b"t"


def table(**values: bytes) -> bytes:
    return b"}(" + b"".join(text(key) + value for key, value in values.items()) + b"u"


def tensor(shape: tuple[int, ...], kind: str = "FloatStorage", key: str = "0") -> bytes:
    """What torch writes of a tensor: a call of ``_rebuild_tensor_v2`` on a persistent id."""
    count = 1
    for size in shape:
        count *= size
    storage = (
        row(text("storage"), name("torch", kind), text(key), text("cpu"), number(count)) + b"Q"
    )
    sizes = row(*map(number, shape))
    hooks = name("collections", "OrderedDict") + b")R"
    arguments = row(storage, number(0), sizes, row(*map(number, shape)), b"\x89", hooks)
    return name("torch._utils", "_rebuild_tensor_v2") + arguments + b"R"


def module(path: str, kind: str, **attributes: bytes) -> bytes:
    """A module object: made without arguments, then given its attributes."""
    return name(path, kind) + b")\x81" + table(**attributes) + b"b"


NET = """\
class Net(Module):
  __parameters__ = []
  __buffers__ = []
  conv : __torch__.layers.Conv
  def forward(self: __torch__.Net,
    x: Tensor,
    scale: Optional[Tensor]=None) -> Tuple[Tensor, Tensor]:
    _0 = __torch__.functional.relu
    conv = self.conv
    y = _0((conv).forward(x, ), False, )
    if torch.gt(torch.size(y, 2), 8):
      y0 = torch.max_pool2d(y, [2, 2], [2, 2], [0, 0], [1, 1])
    else:
      y0 = y
    return (y0, torch.add(y0, CONSTANTS.c0))
"""
CONV = """\
class Conv(Module):
  __parameters__ = ["weight", ]
  weight : Tensor
  def forward(self: __torch__.layers.Conv,
    x: Tensor) -> Tensor:
    weight = self.weight
    return torch.conv2d(x, weight, None, [1, 1], [0, 0], [1, 1], 1)
"""
RELU = """\
def relu(input: Tensor,
    inplace: bool) -> Tensor:
  if inplace:
    result = torch.relu_(input)
  else:
    result = torch.relu(input)
  return result
"""


def net() -> dict[str, bytes]:
    """The records of a small scripted net."""
    conv = module("__torch__.layers", "Conv", weight=tensor((4, 3, 3, 3)))
    return {
        "data.pkl": FORMAT + module("__torch__", "Net", training=b"\x89", conv=conv) + STOP,
        "data/0": bytes(4 * 4 * 3 * 3 * 3),
        "code/__torch__.py": NET.encode(),
        "code/__torch__/layers.py": CONV.encode(),
        "code/__torch__/functional.py": RELU.encode(),
        "constants.pkl": FORMAT + b")" + STOP,
        "version": b"3\n",
    }


def write(path: Path, records: dict[str, bytes], *, packed: bool = False) -> Path:
    method = zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED
    with zipfile.ZipFile(path, "w", method) as archive:
        for record, data in records.items():
            archive.writestr(f"net/{record}", data)
    return path
