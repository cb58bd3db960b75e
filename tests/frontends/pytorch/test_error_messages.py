"""Files of PyTorch that are no TorchScript are said to be so, with the lines that make one."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.frontends.pytorch import explain_file
from tests.frontends.pytorch.archives import FORMAT, STOP, name, table, tensor, write

STATE = table(weight=tensor((4, 3)), bias=tensor((4,), key="1"))


def test_a_state_dict_is_counted(zoo: Path) -> None:
    error = explain_file(zoo / "pytorch" / "version-RFB-320.pth")
    assert "a state dict of 244 tensors" in error.what
    assert "model.load_state_dict(torch.load('version-RFB-320.pth', weights_only=True))" in (
        error.remedy
    )
    assert "torch.jit.trace(model" in error.remedy


@pytest.mark.parametrize(
    ("pickle", "said"),
    [
        (STATE, "a state dict of 2 tensors (64 B)"),
        (name("collections", "OrderedDict") + b")R" + STATE[1:], "a state dict of 2 tensors"),
        (table(epoch=b"K\x07", model=STATE), "a state dict of 2 tensors under 'model'"),
        (
            name("mine.nets", "Net") + b")\x81" + table(w=tensor((2,))) + b"b",
            "a pickled network of class mine.nets.Net with 1 tensors",
        ),
    ],
    ids=["plain", "ordered", "checkpoint", "network"],
)
def test_each_kind_of_torch_save(tmp_path: Path, pickle: bytes, said: str) -> None:
    path = write(tmp_path / "saved.pth", {"data.pkl": FORMAT + pickle + STOP, "version": b"3\n"})
    error = explain_file(path)
    assert said in error.what
    assert "torch.jit.trace" in error.remedy


def test_an_exported_program(tmp_path: Path) -> None:
    path = write(tmp_path / "program.pt2", {"models/model.json": b"{}", "archive_format": b"pt2"})
    error = explain_file(path)
    assert "torch.export" in error.what
    assert "torch.onnx.export" in error.remedy


def test_what_cannot_be_understood(tmp_path: Path) -> None:
    path = tmp_path / "old.pth"
    path.write_bytes(b"\x80\x02garbage")
    assert "could not be understood" in explain_file(path).what
