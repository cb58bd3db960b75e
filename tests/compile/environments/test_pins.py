"""Pins, requirements and wheels, as texts."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from engine.base.errors import ToolkitError
from engine.compile.environments.pins import TESTED, Pins, all_pins, pins_of
from engine.compile.environments.requirements import parse
from engine.compile.environments.wheels import Wheel, check_wheels, wheels_in
from tests.compile.environments.standins import Stand, wheel


def test_all_pins_are_whole() -> None:
    """Each has what the toolkit itself asks for, at a version in its ranges."""
    assert {one.toolkit for one in all_pins()} >= {TESTED, "2.5.0"}
    assert {one.python for one in pins_of(TESTED)} == {"3.8", "3.9", "3.10", "3.11", "3.12"}
    assert pins_of(None)[0].python == "3.11"
    asked = ["protobuf<=4.25.4,>=4.21.6", "psutil>=5.9.0", "ruamel.yaml>=0.17.4", "scipy>=1.5.4"]
    asked += ["tqdm>=4.64.0", "opencv-python>=4.5.5.64", "fast-histogram>=0.11", "numpy<=1.26.4"]
    asked += ["onnx<=1.18.0,>=1.16.1", "onnxruntime>=1.17.0", "torch>=1.10.1"]
    for one in all_pins():
        versions = {name.lower(): version for name, version in one.all.items()}
        for text in asked:
            wanted = parse(text)
            assert wanted is not None
            name = wanted.name.replace("ruamel-yaml", "ruamel.yaml")
            assert wanted.takes(versions[name]), (one.toolkit, one.python, text)
        assert one.second[-1] == f"rknn-toolkit2=={one.toolkit}"
        assert one.second[0].startswith("setuptools==")


def test_environments_of_the_earlier_script_stay_valid() -> None:
    assert pins_of("2.3.2")[0].key == (
        "e9dabd37f25de5d063bc18505d2c39ff6c3b9f85b3eadee533805f23362afde5"
    )


@pytest.mark.parametrize(
    ("text", "yes", "no"),
    [
        ("numpy<=1.26.4", "1.26.4 1.9 0.1", "1.26.5 2.0 10.0"),
        ("numpy <=1.26.4", "1.26.4", "2.0"),
        ("torch (<=2.4.0,>=1.10.1)", "2.4.0+cpu 2.4 1.13", "2.13.0 1.10.0"),
        ("x~=1.4.2", "1.4.2 1.4.9", "1.5 1.4.1"),
        ("x==1.*", "1.0 1.9", "2.0"),
        ("x!=1.5", "1.4", "1.5 1.5.0"),
        ("x>2", "2.1", "2 2.0 1"),
        ("x<2.0", "1.9 2.0rc1", "2.0"),
        ("x[extra]>=3; python_version < '3.9'", "3", "2"),
        ("x", "1 99", ""),
    ],
)
def test_requirements(text: str, yes: str, no: str) -> None:
    wanted = parse(text)
    assert wanted is not None
    for version in yes.split():
        assert wanted.takes(version), version
    for version in no.split():
        assert not wanted.takes(version), version


def test_markers() -> None:
    facts = {"python_version": "3.11", "platform_system": "Linux", "platform_machine": "x86_64"}

    def applies(marker: str) -> bool:
        wanted = parse(f"x; {marker}")
        assert wanted is not None
        return wanted.applies(facts)

    assert applies("python_version >= '3.9'")
    assert applies('platform_system == "Linux" and platform_machine == "x86_64"')
    assert not applies("python_version < '3.9'")
    assert not applies("extra == 'test'")
    assert not applies("(what is this")


def test_wheels_by_their_names() -> None:
    def fits(name: str, python: str = "3.11", machine: str = "x86_64") -> bool:
        found = Wheel.of(Path(name))
        return found is not None and found.fits(python, machine, (2, 31))

    assert fits("a-1-py3-none-any.whl")
    assert fits("a-1-py2.py3-none-any.whl")
    assert fits("a-1-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl")
    assert fits("a-1-1build-cp311-cp311-linux_x86_64.whl")
    assert fits("opencv_python-4.11.0.86-cp37-abi3-manylinux_2_17_x86_64.whl")
    assert fits("a-1-cp36-cp36m-manylinux1_x86_64.whl", "3.6")
    assert fits("a-1-cp311-cp311-manylinux_2_17_aarch64.whl", machine="aarch64")
    assert not fits("a-1-cp311-cp311-manylinux_2_17_aarch64.whl")
    assert not fits("a-1-cp310-cp310-manylinux_2_17_x86_64.whl")
    assert not fits("a-1-cp312-abi3-manylinux_2_17_x86_64.whl")
    assert not fits("a-1-cp311-cp311-manylinux_2_35_x86_64.whl")
    assert not fits("a-1-cp311-cp311-win_amd64.whl")
    assert not fits("a-1-cp311-cp311-musllinux_1_1_x86_64.whl")
    assert not fits("a-1.tar.gz")


def test_what_a_wheel_itself_asks_for_is_looked_for(tmp_path: Path) -> None:
    pins = Pins("2.3.2", "3.11", ("torch==2.4.0",), ("rknn-toolkit2==2.3.2",))
    linux = "platform_system == 'Linux'"
    needs = (f"big-cuda==12.1; {linux}", "here>=1", "other; extra == 'x'", "rare; os_name == 'nt'")
    wheel(tmp_path, Stand("torch", "2.4.0", needs))
    wheel(tmp_path, Stand("here", "1.5", ["deeper"]))
    wheel(tmp_path, Stand("rknn-toolkit2", "2.3.2", ["torch<=2.4.0", "not-looked-at"]))
    with pytest.raises(ToolkitError, match="lacks 2") as raised:
        check_wheels(tmp_path, pins)
    assert "big-cuda==12.1 (of torch 2.4.0)" in raised.value.what
    assert "deeper (of here 1.5)" in raised.value.what
    # the CPU build asks for none of it, and is the same version
    wheel(tmp_path, Stand("torch", "2.4.0+cpu", ["here"]))
    wheel(tmp_path, Stand("deeper"))
    names = [one.path.name for one in check_wheels(tmp_path, pins)]
    assert names == [
        "torch-2.4.0+cpu-py3-none-any.whl",
        "rknn_toolkit2-2.3.2-py3-none-any.whl",
        "here-1.5-py3-none-any.whl",
        "deeper-1.0-py3-none-any.whl",
    ]


def test_damaged_wheels_are_pips_matter(tmp_path: Path) -> None:
    pins = Pins("2.3.2", "3.11", ("a==1",), ("rknn-toolkit2==2.3.2",))
    (tmp_path / "a-1-py3-none-any.whl").write_bytes(b"PK\x03\x04 no")
    with zipfile.ZipFile(tmp_path / "rknn_toolkit2-2.3.2-py3-none-any.whl", "w") as archive:
        archive.writestr("x", "y")
    (tmp_path / "read me.whl").touch()
    assert len(wheels_in(tmp_path)) == 2
    assert len(check_wheels(tmp_path, pins)) == 2
