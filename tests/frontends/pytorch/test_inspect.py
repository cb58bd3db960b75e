"""What a TorchScript file holds, told without torch."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from engine.base.errors import EngineError, SourceModelError
from engine.frontends.load import find_source, inspect_source
from engine.frontends.source import SourceSummary
from tests.frontends.pytorch.archives import FORMAT, STOP, net, row, table, tensor, write
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
