"""A model of torch that names what it should not is refused before torch loads it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from engine.base.errors import EngineError, SourceModelError, UnsupportedOperatorError, WorkerError
from engine.base.events import CallbackReporter, NullReporter
from engine.base.peers.limits import resident_bytes
from engine.frontends import converter_process
from engine.frontends.load import find_source, load_source
from engine.frontends.pytorch import convert
from engine.frontends.pytorch.inspect import inspect
from engine.frontends.pytorch.pickles import Archive
from engine.frontends.pytorch.screen import screen
from engine.frontends.source import LoadOptions
from tests.frontends.pytorch.archives import net, write
from tests.frontends.pytorch.conftest import load
from tests.frontends.pytorch.hostile import (
    OTHERS,
    SAVES,
    in_forward,
    in_setstate,
    read_records,
    unused,
    write_pairs,
)

Place = Callable[[dict[str, bytes], str], dict[str, bytes]]
PLACES: dict[str, Place] = {"forward": in_forward, "__setstate__": in_setstate, "idle": unused}
PRECIOUS = b"precious" * 100


def screened(records: dict[str, bytes]) -> None:
    sizes = [(name, len(data)) for name, data in records.items()]
    screen("net.pt", sizes, lambda name, _: records[name])


@pytest.fixture
def restored(quick_models: Path) -> dict[str, bytes]:
    """The records of a file whose ``__setstate__`` torch runs while it loads."""
    return read_records(quick_models / "restored.pt")


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Path]:
    """A file that nothing may write to."""
    path = tmp_path / "target"
    path.write_bytes(PRECIOUS)
    yield path
    assert path.read_bytes() == PRECIOUS


@pytest.mark.torch
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("form", [*SAVES, *OTHERS])
def test_it_is_refused_with_its_place(restored: dict[str, bytes], form: str, place: str) -> None:
    screened(restored)
    line = {**SAVES, **OTHERS}[form].format("/tmp/precious")
    with pytest.raises(UnsupportedOperatorError, match="not taken") as caught:
        screened(PLACES[place](restored, line))
    record = "code/__torch__/idle.py" if place == "idle" else "code/__torch__.py"
    assert f"({record}, line " in caught.value.what
    assert f"{place})" in caught.value.what
    assert caught.value.cause
    assert caught.value.remedy


@pytest.mark.torch
@pytest.mark.long
def test_torch_itself_would_write_with_each_of_these(
    restored: dict[str, bytes], tmp_path: Path
) -> None:
    """Else what the test above refuses would prove nothing."""
    files = []
    for number, line in enumerate(SAVES.values()):
        for place in (in_forward, in_setstate):
            target = tmp_path / f"{number}-{place.__name__}.target"
            target.write_bytes(PRECIOUS)
            path = target.with_suffix(".pt")
            write(path, place(restored, line.format(target)))
            files.append(str(path))
    code = (
        "import json, sys, torch\n"
        "for path in json.loads(sys.argv[1]):\n"
        "    torch.jit.load(path)(torch.zeros(1, 3, 8, 8))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, json.dumps(files)], check=False, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    touched = [Path(f).with_suffix(".target").read_bytes() != PRECIOUS for f in files]
    assert all(touched), [f for f, was in zip(files, touched, strict=True) if not was]


@pytest.mark.torch
@pytest.mark.parametrize("place", ["forward", "__setstate__"])
def test_a_load_refuses_it_and_touches_nothing(
    restored: dict[str, bytes], tmp_path: Path, target: Path, place: str
) -> None:
    path = write(tmp_path / "net.pt", PLACES[place](restored, SAVES["save"].format(target)))
    converter_process.close("pytorch")
    with pytest.raises(UnsupportedOperatorError, match="aten::save"):
        load(path, (1, 3, 8, 8))
    assert "pytorch" not in converter_process._children  # torch was not even started
    found = inspect(find_source(path))
    assert [(f.code, f.severity) for f in found.findings] == [("operator-refused", "error")]


@pytest.mark.torch
def test_the_child_looks_through_it_with_torchs_own_reader(
    restored: dict[str, bytes], tmp_path: Path, target: Path
) -> None:
    """Should the two readers of archives ever see different code."""
    path = write(tmp_path / "net.pt", in_setstate(restored, SAVES["save"].format(target)))
    request = {"model": str(path), "sizes": [[1, 3, 8, 8]], "traced": [], "route": "auto"}

    with (
        pytest.raises(UnsupportedOperatorError, match="aten::save"),
        converter_process.convert("pytorch", request, NullReporter(), reads=[path]),
    ):
        pass


@pytest.mark.parametrize(
    "pairs",
    [
        [("net/code/__torch__.py", b"evil"), ("net/code/__torch__.py", b"good")],
        [("net/code/__TORCH__.py", b"evil"), ("net/code/__torch__.py", b"good")],
        [("net/code/__torch__.py", b"evil"), ("other/code/__torch__.py", b"good")],
    ],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_an_archive_that_two_readers_would_see_differently_is_refused(
    tmp_path: Path, pairs: list[tuple[str, bytes]]
) -> None:
    path = write_pairs(tmp_path / "net.pt", pairs)
    with pytest.raises(SourceModelError, match="two records of one name"), Archive(path):
        pass


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ({"model.json": b"{}"}, "before PyTorch 1.4"),
        ({"code/x.py": b"x = 1\r", "code/X.py": b""}, "two records"),
        ({"code/x.py": "é".encode()}, "characters that PyTorch does not write"),
        ({"code/x.py": b"x = 1 + \\\n2\n"}, "characters that PyTorch does not write"),
        ({"code/x.py": b"(" * 3000}, "not TorchScript"),
        ({"code/x.py": b"def f(:"}, "not TorchScript"),
        ({"code/x.py": b"def f():\n  pass\ndef f():\n  pass\n"}, "defined twice"),
        ({"code/x.py": b"class A(B):\n  pass\n"}, "another base"),
        ({"code/a b.py": b"class A(Module):\n  pass\n"}, "not a name of a module"),
        ({"code/x.py": b"x" * (9 << 20)}, "more than 8.00 MiB"),
        ({"code/x.py": b"def f(a):\n  # type: (Tensor) -> Tensor\n  return a\n"}, "a type comment"),
        ({"code/x.py": b"def f(a):\n  return a  #type : ignore\n"}, "a type comment"),
        ({"data.pkl": b"\x80\x02c__torch__.torch.classes.c10d\nFileStore\n."}, "c10d.FileStore"),
        ({"data.pkl": b"\x80\x02c__torch__.torch\nclasses.c10d.FileStore\n."}, "c10d.FileStore"),
    ],
)
def test_what_torch_does_not_write_is_refused(records: dict[str, bytes], said: str) -> None:
    with pytest.raises(EngineError, match=said):
        screened(records)


def test_members_of_classes_are_known_by_their_class() -> None:
    """An attribute may be called as an operator is; one of a tensor may not."""
    records = net()
    text = records["code/__torch__.py"].decode()
    own = text.replace("conv", "save")
    screened(records | {"code/__torch__.py": own.encode()})
    stranger = text.replace("torch.size(y, 2)", "y.save")
    with pytest.raises(UnsupportedOperatorError, match=r"aten::save, .*line 11, in Net\.forward"):
        screened(records | {"code/__torch__.py": stranger.encode()})
    # a name that is sometimes an object of the class and sometimes not has no class
    both = own.replace("    y = _0(", "    save = x\n    y = _0(")
    with pytest.raises(UnsupportedOperatorError, match="aten::forward"):
        screened(records | {"code/__torch__.py": both.encode()})
    # what the text says of "self" does not count
    lies = text.replace("self: __torch__.Net", "self: __torch__.layers.Conv")
    screened(records | {"code/__torch__.py": lies.encode()})


EATERS = {
    "at once": "y = torch.ones([1000000000])\n    print(torch.sum(y))",
    "bit by bit": (
        "y = annotate(List[Tensor], [])\n    for i in range(1000000):\n"
        "      _0 = torch.append(y, torch.ones([4000000]))\n    print(len(y))"
    ),
    "by doubling": (
        "y = torch.ones([1000])\n    for i in range(100):\n"
        "      y = torch.cat([y, y])\n    print(torch.sum(y))"
    ),
}


@pytest.mark.torch
@pytest.mark.long
@pytest.mark.parametrize("place", ["forward", "__setstate__"])
@pytest.mark.parametrize("how", EATERS)
def test_a_small_model_does_not_take_the_memory(
    restored: dict[str, bytes], tmp_path: Path, how: str, place: str
) -> None:
    held = [0]

    def look() -> bool:
        children = converter_process._children.values()
        held.extend(resident_bytes(one.child.process.pid) for one in children)
        return False

    path = write(tmp_path / "net.pt", PLACES[place](restored, EATERS[how]))
    source = find_source(path, options=LoadOptions(input_size_list=((1, 3, 8, 8),)))
    with pytest.raises(WorkerError, match="memory"):
        load_source(source, CallbackReporter(lambda _: None, look))
    assert max(held) < 2.3 * (1 << 30)


@pytest.mark.torch
@pytest.mark.long
def test_a_model_that_never_ends_is_ended(
    restored: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(convert, "_SECONDS", 3.0)
    line = "while True:\n      x = torch.add(x, 1)"
    path = write(tmp_path / "net.pt", in_setstate(restored, line))
    with pytest.raises(WorkerError, match="more than 3 s"):
        load(path, (1, 3, 8, 8))


@pytest.mark.torch
def test_limits_grow_with_the_file_and_the_inputs() -> None:
    seconds, growth = convert._limits(2048, [[1, 3, 16, 16]])
    assert 60 <= seconds < 61
    assert 1 << 30 <= growth < 1.01 * (1 << 30)
    assert convert._limits(300 << 20, [[1, 3, 224, 224]])[1] > 8 << 30
    assert convert._limits(4 << 20, [[1, 3, 1024, 1024]])[1] > 4 << 30
    # sizes that no model has do not lift them
    assert convert._limits(2048, [[1 << 60, 1 << 60]])[1] < 300 << 30


def test_a_text_that_looks_like_a_type_comment_is_none() -> None:
    screened({"code/x.py": b'def f(a: Tensor) -> str:\n  return "# type: (Tensor)"\n'})


@pytest.mark.parametrize(
    "name",
    [
        *("_reshape_alias", "ctc_loss", "_ctc_loss", "_fused_moving_avg_obs_fq_helper"),
        *("as_strided_", "_weight_norm_interface", "native_group_norm", "promote_types"),
        *("_batch_norm_with_update", "_embedding_bag", "_upsample_lanczos2d_aa", "_softmax"),
        *("_scaled_dot_product_flash_attention_for_cpu", "_unsafe_index", "_stack"),
    ],
)
def test_operators_that_read_beyond_their_buffers_are_not_taken(name: str) -> None:
    with pytest.raises(EngineError, match=name):
        screened({"code/x.py": f"def f(a: Tensor) -> Tensor:\n  return torch.{name}(a)\n".encode()})
    with pytest.raises(EngineError, match=name):
        screened({"code/x.py": f"def f(a: Tensor) -> Tensor:\n  return a.{name}()\n".encode()})


@pytest.mark.parametrize(
    "call", ["torch.adaptive_avg_pool3d(a, [7, 5], out=a)", "a.repeat_interleave(output_size=1)"]
)
def test_arguments_that_operators_believe_are_not_taken(call: str) -> None:
    with pytest.raises(EngineError, match=r"the argument (out|output_size)="):
        screened({"code/x.py": f"def f(a: Tensor) -> Tensor:\n  return {call}\n".encode()})
    plain = call.replace("out=a", "out=None").replace("output_size=1", "output_size=None")
    screened({"code/x.py": f"def f(a: Tensor) -> Tensor:\n  return {plain}\n".encode()})


RESIZE = """def resize(x: Tensor,
    mode: str="nearest",
    out: Optional[Tensor]=None) -> Tensor:
  _1 = torch.eq(torch.dim(x), 4)
  if _1:
    _3 = torch.eq(mode, "lanczos")
    _2 = _3
  else:
    _2 = False
  if _2:
    _4 = torch._upsample_lanczos2d_aa(x, [9, 9], False, None)
  else:
    _4 = torch.upsample_nearest2d(x, [9, 9], None)
  if torch.__is__(out, None):
    _5 = torch.neg(_4)
  else:
    out0 = unchecked_cast(Tensor, out)
    _5 = torch.neg(_4, out=out0)
  return _5
"""
"""In the form of PyTorch's interpolate and normalize."""


def calling(body: str, resize: str = RESIZE) -> None:
    """Screen a function that calls it."""
    head = "def f(a: Tensor, word: str, b: Optional[Tensor]=None) -> Tensor:\n"
    lines = [f"  {line}\n" for line in body.format(f="__torch__.g.resize").splitlines()]
    screened(
        {"code/__torch__/g.py": resize.encode(), "code/x.py": (head + "".join(lines)).encode()}
    )


@pytest.mark.parametrize(
    "body",
    [
        "return {f}(a, 'bilinear', None)",
        "return {f}(a, 'bilinear')",
        "return {f}(a)",
        "return {f}(a, mode='bicubic')",
        "_0 = {f}\nb = _0(a, 'nearest', None)\nreturn _0(b, 'bicubic', None)",
        "if torch.eq(word, 'x'):\n  w = 'x'\nelse:\n  w = 'y'\nreturn {f}(a, w)",
    ],
)
def test_a_branch_that_nothing_takes_may_name_what_is_not_taken(body: str) -> None:
    calling(body)


@pytest.mark.parametrize(
    "body",
    [
        "return a",  # nothing calls it
        "return {f}(a, 'lanczos', None)",
        "b = {f}(a, 'nearest', None)\nreturn {f}(b, 'lanczos', None)",
        "return {f}(a, word, None)",
        "return {f}(a, mode=word)",
        "return {f}(a, 'nearest', b)",
        "w = 'nearest'\nif torch.eq(word, 'x'):\n  w = 'lanczos'\nelse:\n  pass\nreturn {f}(a, w)",
        "w = 'nearest'\nw += 'x'\nreturn {f}(a, w)",
        "for w in ['lanczos']:\n  a = {f}(a, w)\nreturn a",
        "w, v = torch.split(word), 'nearest'\nreturn {f}(a, w)",
        "_0 = {f}\nfs = [_0]\nb = _0(a, 'nearest')\nreturn fs[0](b, 'lanczos')",
        "fs = [{f}]\nb = {f}(a, 'nearest')\nreturn fs[0](b, 'lanczos')",
        "_0 = {f}\nb = _0(a, 'nearest')\n_1 = _0\nreturn _1(b, 'lanczos')",
    ],
)
def test_a_branch_that_may_be_taken_may_not(body: str) -> None:
    with pytest.raises(EngineError, match=r"_upsample_lanczos2d_aa|out="):
        calling(body)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('torch.eq(mode, "lanczos")', 'torch.ne(mode, "lanczos")'),
        ("_2 = False", "_2 = True"),
        ("_2 = False", "_2 = torch.eq(x, x)"),
        ("  _1 =", "  mode = torch.format('{}', 'lanczos')\n  _1 ="),
        ("  _1 =", "  unchecked_cast = 3\n  _2 = unchecked_cast(bool, False)\n  _1 ="),
        ("torch._upsample_lanczos2d_aa(x", "torch.save(x"),  # no branch at all may name this
        ("out=out0", "out1=out0"),
    ],
)
def test_what_decides_a_branch_is_understood_or_the_branch_counts(old: str, new: str) -> None:
    assert RESIZE.count(old) == 1
    with pytest.raises(EngineError, match=r"_upsample_lanczos2d_aa|save|out1=|unchecked_cast"):
        calling("return {f}(a, 'nearest', None)", RESIZE.replace(old, new))


SCRIPTED = """
import torch
from torch import nn
from torch.nn import functional as F

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Upsample(scale_factor=2.0, mode="bilinear", align_corners=False)
    def forward(self, x):
        return F.normalize(self.up(F.interpolate(x, size=[6, 6], mode="nearest")))

class Lanczos(nn.Module):
    def forward(self, x):
        return F.interpolate(x, size=[6, 6], mode="lanczos", antialias=True)

for name in ("Net", "Lanczos"):
    torch.jit.script(globals()[name]().eval()).save(f"{name}.pt")
"""


@pytest.mark.long
@pytest.mark.torch
def test_scripted_functions_of_torch_load_by_what_they_call(tmp_path: Path) -> None:
    (tmp_path / "make.py").write_text(SCRIPTED)
    subprocess.run([sys.executable, "make.py"], cwd=tmp_path, check=True, capture_output=True)
    listed = {layer.op for layer in inspect(find_source(tmp_path / "Net.pt")).layers}
    assert {"aten::upsample_bilinear2d", "aten::upsample_nearest2d"} < listed
    assert not any("_aa" in op or "bicubic" in op for op in listed)
    loaded = load(tmp_path / "Net.pt", (1, 3, 5, 5))  # held to PyTorch's numbers
    assert [node.op_type for node in loaded.graph.nodes].count("Resize") == 2
    with pytest.raises(UnsupportedOperatorError, match="lanczos"):
        load(tmp_path / "Lanczos.pt", (1, 3, 5, 5))


ENCODER = """
import torch
layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
net = torch.jit.script(torch.nn.TransformerEncoder(layer, 2).eval())
net.save("scripted.pt")
torch.jit.freeze(net).save("frozen.pt")
"""


@pytest.mark.long
@pytest.mark.torch
def test_a_scripted_encoder_loads_frozen_or_not(tmp_path: Path) -> None:
    """It names the padding of nested tensors; a frozen module has no mode of training."""
    subprocess.run([sys.executable, "-c", ENCODER], cwd=tmp_path, check=True, capture_output=True)
    for name in ("scripted", "frozen"):
        loaded = load(tmp_path / f"{name}.pt", (1, 5, 8))
        operators = [node.op_type for node in loaded.graph.nodes]  # held to PyTorch's numbers
        assert operators.count("LayerNormalization") == 4


BELIEVES = """
import torch
behind = torch.zeros(64, dtype=torch.float16).as_strided_([], [], 2**63 - 4)
print("read", 8, "bytes before", behind.item() * 0 if behind.isfinite() else 0)
try:
    torch.zeros(64, dtype=torch.float16).as_strided([], [], 2**63 - 4)
except RuntimeError:
    print("as_strided is judged")
"""


@pytest.mark.torch
@pytest.mark.long
def test_torch_itself_reads_beyond_a_buffer() -> None:
    """Else what is not taken above would prove nothing, and what is taken would be a hole."""
    if find_spec("torch") is None:
        pytest.skip("PyTorch is not installed")
    ran = subprocess.run(
        [sys.executable, "-c", BELIEVES], check=False, capture_output=True, text=True
    )
    assert ran.stdout.startswith("read 8 bytes before"), ran.stderr
    assert "as_strided is judged" in ran.stdout
