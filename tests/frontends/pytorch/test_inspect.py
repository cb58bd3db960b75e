"""What a TorchScript file holds, told without torch."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from engine.base.errors import EngineError, SourceModelError
from engine.frontends.load import find_source, inspect_source
from engine.frontends.pytorch import explain_file
from engine.frontends.source import SourceSummary
from tests.frontends.pytorch.archives import FORMAT, STOP, name, net, row, table, tensor, write
from tests.fuzz.mutate import inner_mutant


def look(path: Path) -> SourceSummary:
    return inspect_source(find_source(path))


def test_operators_are_listed_as_forward_calls_them(tmp_path: Path) -> None:
    found = look(write(tmp_path / "net.pt", net()))
    assert [layer.op for layer in found.layers] == [
        "aten::conv2d",
        "prim::If",
        "aten::relu",  # inplace is False wherever it is called
        "aten::gt",
        "prim::If",
        "aten::max_pool2d",
        "aten::add",
    ]
    assert found.layers[0].name == "conv.conv2d"
    assert found.format == "TorchScript (scripted), file format 3"
    assert [(t.name, t.shape) for t in found.inputs] == [("x", None), ("scale", None)]
    assert [t.name for t in found.outputs] == ["output0", "output1"]
    assert (found.parameters, found.weights_bytes) == (108, 432)
    assert not found.refused


def test_a_trace_tells_its_sizes(tmp_path: Path) -> None:
    records = net()
    records["code/__torch__.py"] = records["code/__torch__.py"].replace(
        b",\n    scale: Optional[Tensor]=None", b""
    )
    inputs = table(forward=row(tensor((1, 3, 32, 32))))
    records["traced_inputs.pkl"] = FORMAT + inputs + STOP
    found = look(write(tmp_path / "net.pt", records))
    assert [(t.shape, t.dtype) for t in found.inputs] == [((1, 3, 32, 32), "float32")]
    assert "traced" in found.format


def test_operators_of_other_libraries_are_refused_by_name(tmp_path: Path) -> None:
    records = net()
    records["code/__torch__.py"] = records["code/__torch__.py"].replace(
        b"torch.max_pool2d(y, [2, 2]", b"ops.torchvision.nms(y, [2, 2]"
    )
    found = look(write(tmp_path / "net.pt", records))
    assert [(op, layer) for op, layer, _ in found.refused] == [("torchvision::nms", "nms")]
    assert [f.severity for f in found.findings] == ["error"]


def test_code_that_does_not_parse_is_a_finding(tmp_path: Path) -> None:
    records = net() | {"code/__torch__.py": b"class Net(Module:\n"}
    found = look(write(tmp_path / "net.pt", records))
    assert [f.code for f in found.findings] == ["torchscript-unclear"]
    assert found.parameters == 108


def test_calls_in_circles_end(tmp_path: Path) -> None:
    records = net() | {
        "code/__torch__/functional.py": b"def relu(x: Tensor, i: bool) -> Tensor:\n"
        b"  return __torch__.functional.relu(x, i)\n"
    }
    assert [f.code for f in look(write(tmp_path / "net.pt", records)).findings] == [
        "torchscript-long"
    ]


def test_a_truncated_archive_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "net.pt", net())
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(SourceModelError):
        look(path)


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    path = write(tmp_path / "net.pt", net() | {"data/1": bytes(100 << 20)}, packed=True)
    assert path.stat().st_size < 1 << 20
    with pytest.raises(SourceModelError, match="unpacks to"):
        look(path)


def test_mutants_are_told_of_or_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "net.pt", net())
    whole = path.read_bytes()
    for number in range(150):
        path.write_bytes(inner_mutant(whole, number))
        with contextlib.suppress(EngineError):
            look(path)


# -- files of PyTorch that are no TorchScript

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
