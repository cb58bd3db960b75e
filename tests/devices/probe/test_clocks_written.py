"""The plan of clocks against files that behave as the kernel's do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.devices.agent.far_side import files

BEFORE = {"cpu/governor": "ondemand", "npu/governor": "rknpu_ondemand"}


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Governors; the frequency can be set under ``userspace`` only, as in devfreq and cpufreq."""
    for name, text in BEFORE.items():
        path = tmp_path / name
        path.parent.mkdir()
        path.write_text(f"{text}\n")
    (tmp_path / "cpu" / "setspeed").write_text("<unsupported>\n")
    put = files._put

    def as_the_kernel(path: str, text: str) -> str:
        node = Path(path)
        if node.name == "setspeed" and node.read_text().startswith("<"):
            return "Invalid argument"
        if reason := put(path, text):
            return reason
        if node.name == "governor":
            ours = text == "userspace"
            if node.parent.name == "cpu":
                (node.parent / "setspeed").write_text("600000\n" if ours else "<unsupported>\n")
            elif ours:
                (node.parent / "userspace").mkdir(exist_ok=True)
                (node.parent / "userspace" / "set_freq").write_text("200000000\n")
            else:
                (node.parent / "userspace" / "set_freq").unlink()
        return ""

    monkeypatch.setattr(files, "_put", as_the_kernel)
    return tmp_path


def test_a_frequency_that_appears_with_its_governor_is_written_and_restored(kernel: Path) -> None:
    values = [
        ["cpu/governor", "userspace"],
        ["cpu/setspeed", "1800000"],
        ["npu/governor", "userspace"],
        ["npu/userspace/set_freq", "1000000000"],
    ]
    pairs = [[str(kernel / name), text] for name, text in values]
    clocks = files.Clocks()
    keep = str(kernel / "clocks.json")
    done = clocks.write({"values": pairs, "keep": keep})
    assert done == {"changed": [path for path, _ in pairs], "refused": []}
    assert (kernel / "cpu/setspeed").read_text() == "1800000\n"
    assert (kernel / "npu/userspace/set_freq").read_text() == "1000000000\n"
    assert clocks.restore({"keep": keep})["refused"] == []
    assert {name: (kernel / name).read_text().strip() for name in BEFORE} == BEFORE
    assert not (kernel / "clocks.json").exists()


def test_what_an_earlier_change_left_stays_on_record(kernel: Path) -> None:
    keep = kernel / "clocks.json"
    left = [[str(kernel / "dmc" / "governor"), "dmc_ondemand"]]
    keep.write_text(json.dumps(left))
    pair = [left[0][0], "userspace"]
    done = files.Clocks().write({"values": [pair], "keep": str(keep)})
    assert done["refused"] == [[pair[0], "it cannot be read"]]
    assert json.loads(keep.read_text()) == left
