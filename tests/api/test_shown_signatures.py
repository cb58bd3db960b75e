"""``inspect.signature`` of ``RKNN``'s methods, which ``help`` and completion show: the vendor's."""

from __future__ import annotations

import inspect
import json
import os
import re
import sys
from inspect import Parameter
from pathlib import Path

import pytest

from engine.api import RKNN
from engine.api.signatures import KEYWORDS, POSITIONAL
from scripts.make_api_stub import STUB, stub
from tests.safety import ran

METHODS = sorted({method for method, _ in POSITIONAL})

# What the vendor's code has beyond its manuals, or in another place [spec/README.md, section 3].
CODE = {
    "config": {
        *("quantized_hybrid_level", "inputs_yuv_fmt"),
        *("auto_hybrid_cos_thresh", "auto_hybrid_euc_thresh"),
    },
    "build": {"auto_hybrid"},
    "inference": {"get_frame_id"},
    "hybrid_quantization_step1": {"rknn_batch_size"},
}


def shown(method: str, rknn: object = RKNN) -> dict[str, object]:
    """Parameters by position -> default, EMPTY where required."""
    found = inspect.signature(getattr(rknn, method)).parameters.values()
    by_position = [p for p in found if p.kind is Parameter.POSITIONAL_OR_KEYWORD]
    return {p.name: p.default for p in by_position if p.name != "self"}


def manual(shared: Path, column: int) -> dict[str, list[tuple[str, str | None]]]:
    """Method -> (parameter, its stated default), as the table of the manuals' signatures has it."""
    text = (shared / "spec" / "README.md").read_text("utf-8")
    rows = text[text.index("## 2. Signatures") : text.index("### What the same name means")]
    found: dict[str, list[tuple[str, str | None]]] = {}
    for line in rows.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        name = cells[0].strip(" |`")
        if name not in METHODS or len(cells) < 4:
            continue
        listed = re.match(r"`\((.*)\)`", cells[column])
        if listed is None:
            continue
        parts = re.split(r", (?![^[]*\])", re.sub(r" \(n\.s\.\)", "", listed[1]))
        pairs = [part.partition("=") for part in parts if part]
        found[name] = [(n, d if equals else None) for n, equals, d in pairs]
    return found


@pytest.mark.parametrize("generation", [1, 2])
def test_the_signatures_are_those_of_the_manual(shared: Path, generation: int) -> None:
    rknn = RKNN(generation=generation)
    rows = manual(shared, 1 if generation == 1 else 3)
    assert len(rows) >= 14
    for method, stated in rows.items():
        ours = shown(method, rknn)
        names = [name for name, _ in stated]
        if generation == 2 and method in CODE:
            assert set(ours) == set(names) | CODE[method], method
        else:
            assert list(ours)[: len(names)] == names, method
        for name, default in stated:
            if default is not None and "NPU_CORE" not in default and "rk1808" not in default:
                assert str(ours[name]) == default.strip("'"), (method, name)


def test_a_class_and_its_objects() -> None:
    assert list(shown("build"))[1:] == ["dataset", "rknn_batch_size", "auto_hybrid"]
    first, second = RKNN(generation=1), RKNN()
    assert list(shown("build", first))[2] == "pre_compile"
    assert shown("build", second) == shown("build")
    # before config an object is of generation 2, and afterwards of that of its arguments
    second.config(channel_mean_value="0 0 0 1", reorder_channel="0 1 2")
    assert list(shown("build", second))[2] == "pre_compile"
    for method in METHODS:
        assert getattr(RKNN, method).__name__ == method
        assert getattr(RKNN, method).__doc__
        assert "self" not in inspect.signature(getattr(first, method)).parameters
    with pytest.raises(TypeError):
        inspect.signature(RKNN.load_onnx).bind(first)  # model is needed


@pytest.mark.parametrize("generation", [1, 2])
def test_everything_that_is_taken_is_shown(generation: int) -> None:
    for method in METHODS:
        key = method, generation
        found = set(inspect.signature(getattr(RKNN(generation=generation), method)).parameters)
        assert found == {*POSITIONAL[key], *KEYWORDS.get(key, {})}, method


def test_static_tools_are_told_the_same() -> None:
    assert STUB.read_text("utf-8") == stub()


_SCRIPT = """
from {package} import RKNN
rknn = RKNN(verbose=True)
rknn.config(mean_values=[[0]], std_values=[[1]], target_platform="rk3588")
rknn.config(target_platform="rk3588", quantised_dtype="w8a8")
rknn.load_onnx()
rknn.build(True, "dataset.txt", pre_compile=True)  # of generation 1
rknn.build(do_quantization=True, datasett="dataset.txt")
rknn.biuld()
"""


@pytest.mark.long
def test_mypy_finds_a_wrong_argument_in_a_user_s_script(tmp_path: Path) -> None:
    for at, package in enumerate(("engine.api", "rknn.api")):
        (tmp_path / f"script_{at}.py").write_text(_SCRIPT.format(package=package))
    root = STUB.parents[2]
    paths = {"MYPYPATH": f"{root / 'engine/api/drop_in'}{os.pathsep}{root}"}
    words = [sys.executable, "-m", "mypy", "script_0.py", "script_1.py"]
    checked = ran(*words, cwd=tmp_path, env=os.environ | paths)
    found = re.findall(r"(script_\d)\.py:(\d+): error", checked.stdout)
    wrong = {(f"script_{at}", str(line)) for at in (0, 1) for line in (5, 6, 8, 9)}
    assert set(found) == wrong, checked.stdout + checked.stderr


_ASK = """
import inspect, json
from rknn.api import RKNN
found = {}
for name, method in vars(RKNN).items():
    if callable(method) and not name.startswith("_"):
        found[name] = [
            (p.name, repr(None if p.default is p.empty else p.default), p.default is p.empty)
            for p in inspect.signature(method).parameters.values()
            if p.kind is p.POSITIONAL_OR_KEYWORD and p.name != "self"
        ]
print("ANSWER" + json.dumps(found))
"""


@pytest.mark.long
@pytest.mark.vendor
def test_the_signatures_are_those_of_the_vendors_class(vendor_folder: Path, tmp_path: Path) -> None:
    asked = ran(vendor_folder / "bin" / "python", "-c", _ASK, cwd=tmp_path, check=True)
    theirs = json.loads(asked.stdout.partition("ANSWER")[2])
    for method in sorted(set(theirs) & set(METHODS)):
        ours = [
            (
                name,
                repr(None if default is Parameter.empty else default),
                default is Parameter.empty,
            )
            for name, default in shown(method).items()
        ]
        assert ours == [tuple(each) for each in theirs[method]], method
