"""Pins, requirements and wheels, as texts."""

from __future__ import annotations

import platform
import zipfile
from pathlib import Path

import pytest

from engine.base.errors import ToolkitError
from engine.toolkit.environments.wheels import (
    TESTED,
    Pins,
    Wheel,
    all_pins,
    check_wheels,
    needed,
    pins_of,
    takes,
    wheels_in,
)
from tests.toolkit.environments.standins import Stand, wheel


def test_all_pins_are_whole() -> None:
    """Each has what the toolkit itself asks for, at a version in its ranges."""
    assert {one.toolkit for one in all_pins()} >= {TESTED, "2.5.0"}
    assert {one.python for one in pins_of(TESTED)} == {"3.8", "3.9", "3.10", "3.11", "3.12"}
    assert pins_of(None)[0].python == "3.11"
    asked = ["protobuf<=4.25.4,>=4.21.6", "psutil>=5.9.0", "ruamel.yaml>=0.17.4", "scipy>=1.5.4"]
    asked += ["tqdm>=4.64.0", "opencv-python>=4.5.5.64", "fast-histogram>=0.11", "numpy<=1.26.4"]
    asked += ["onnx<=1.18.0,>=1.16.1", "onnxruntime>=1.17.0", "torch>=1.10.1"]
    for one in all_pins():
        for wanted in needed(asked, one.python, "x86_64"):
            assert takes(wanted, one.all[wanted.name]), (one.toolkit, one.python, wanted)
        assert len(needed(asked, one.python, "x86_64")) == len(asked)
        assert one.second[-1] == f"rknn-toolkit2=={one.toolkit}"
        assert one.second[0].startswith("setuptools==")


def test_environments_of_the_earlier_script_stay_valid() -> None:
    assert pins_of("2.3.2")[0].key == (
        "e9dabd37f25de5d063bc18505d2c39ff6c3b9f85b3eadee533805f23362afde5"
    )


@pytest.mark.parametrize(
    ("text", "yes", "no"),
    [
        ("numpy <=1.26.4", "1.26.4 1.9 0.1", "1.26.5 2.0 10.0"),
        ("torch (<=2.4.0,>=1.10.1)", "2.4.0+cpu 2.4 1.13", "2.13.0 1.10.0"),
        ("x<2.0", "1.9 2.0.1.dirty", "2.0 2.0rc1"),
        ("x>=2.0rc2", "2.0rc2 2.0rc10 2.0", "2.0rc1 2.0b3 2.0.dev1"),
        ("x==2.0a1", "2.0a1", "2.0a2 2.0"),
        ("x[extra]>=3; python_version < '3.12'", "3", "2"),
        ("x", "1 99 2rc1", ""),
    ],
)
def test_requirements(text: str, yes: str, no: str) -> None:
    """Pre-releases have their order; what is no version constrains nothing."""
    (wanted,) = needed([text], "3.11", "x86_64")
    assert [version for version in (yes + " " + no).split() if takes(wanted, version)] == (
        yes.split()
    )


@pytest.mark.parametrize(
    ("marker", "applies"),
    [
        ("python_version >= '3.9'", True),
        ('platform_system == "Linux" and platform_machine == "aarch64"', True),
        ("platform_machine == 'x86_64' or platform_machine == 'aarch64'", True),
        ("(os_name == 'nt' or python_version < '3.9') and sys_platform == 'linux'", False),
        ("python_full_version < '3.11.8' and implementation_name == 'cpython'", True),
        ("python_version < '3.9'", False),
        ("extra == 'test'", False),
        ("extra == 'test' or python_version >= '3'", True),
        ("(what is this", False),
        ("(" * 1500, False),
    ],
)
def test_markers(marker: str, applies: bool) -> None:
    """By the environment that is asked for, not by the Python of this process."""
    assert bool(needed([f"x; {marker}"], "3.11.7", "aarch64")) == applies


def test_wheels_by_their_names() -> None:
    machine = platform.machine()
    other = "aarch64" if machine == "x86_64" else "x86_64"

    def fits(name: str, python: str = "3.11") -> bool:
        found = Wheel.of(Path(name))
        return found is not None and found.fits(python)

    assert fits("a-1-py2.py3-none-any.whl")
    assert fits(f"a-1-cp311-cp311-manylinux_2_17_{machine}.manylinux2014_{machine}.whl")
    assert fits(f"opencv_python-4.11.0.86-cp37-abi3-manylinux_2_17_{machine}.whl")
    assert fits(f"a-1-cp38-cp38-linux_{machine}.whl", "3.8")
    for tags in (
        f"cp311-cp311-manylinux_2_17_{other}",
        f"cp310-cp310-manylinux_2_17_{machine}",
        f"cp312-abi3-manylinux_2_17_{machine}",
        f"cp311-cp311-manylinux_2_99_{machine}",
        "cp311-cp311-win_amd64",
    ):
        assert not fits(f"a-1-{tags}.whl"), tags
    for name in ("a-1.tar.gz", "read me.whl", "a-x-py3-none-any.whl"):
        assert not fits(name), name


def test_the_wheel_that_pip_would_take(tmp_path: Path) -> None:
    """The newest by its number, not by its name; a pre-release only where there is no other."""
    pins = Pins("2.3.2", "3.11", ("a==1.0",), ("rknn-toolkit2==2.3.2",))
    wheel(tmp_path, Stand("a", "1.0", ["b>=1", "c"]))
    wheel(tmp_path, Stand("rknn-toolkit2", "2.3.2"))
    for version in ("1.9", "1.10", "2.0rc1"):
        wheel(tmp_path, Stand("b", version))
    wheel(tmp_path, Stand("c", "3.0rc1"))
    names = [one.path.name for one in check_wheels(tmp_path, pins)][2:]
    assert names == ["b-1.10-py3-none-any.whl", "c-3.0rc1-py3-none-any.whl"]


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
