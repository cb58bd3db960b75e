"""Versions against each other and against a model."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.base.findings import Finding
from engine.devices.board.model_file import model_file
from engine.devices.probe.compatibility import (
    SAME_NPU,
    ModelFacts,
    container_table,
    loads,
    match,
    required_by_toolkit1,
    toolkit1_table,
)
from engine.devices.probe.versions import Component, Version, Versions
from engine.facts import chip, chips


def part(name: str, version: str, path: str = "/x") -> Component:
    return Component(name, path, Version.parse(version))


def software(
    *, server: str = "2.3.2", runtime: str = "2.3.2", driver: str = "0.9.8", generation: int = 2
) -> Versions:
    names = ("rknpu", "librknnrt") if generation == 2 else ("galcore", "librknn_runtime")
    return Versions(
        driver=part(names[0], driver),
        server=part("rknn_server", server),
        libraries=(part(names[1], runtime),),
    )


def codes(found: tuple[Finding, ...]) -> list[str]:
    return [finding.code for finding in found]


MODEL = ModelFacts("net", generation=2, chips=("rk3588",), toolkit="2.3.2")


def test_what_fits_has_no_findings() -> None:
    assert match(software(), MODEL, "rk3588") == ()
    assert match(software(), None, "rk3588") == ()
    assert match(Versions(), MODEL, "rk3588") == ()


@pytest.mark.parametrize(
    ("runtime", "toolkit", "fits"),
    [
        ("2.3.2", "2.3.2", True),
        ("2.3.2", "1.6.2-source_code", True),
        ("2.3.2", "2.3.3", False),
        ("1.5.2", "2.3.2", False),
        ("2.0.0b0", "2.0.0", False),
        ("2.0.0", "2.0.0b0+9bab5682", True),
        ("2.10.0", "2.9.0", True),
        ("1.5.2", "", True),
        ("1.5.2", "no version", True),
    ],
)
def test_a_runtime_older_than_the_toolkit_is_to_be_tried(
    runtime: str, toolkit: str, fits: bool
) -> None:
    """Of a file whose container is not known."""
    model = ModelFacts(generation=2, chips=("rk3588",), toolkit=toolkit)
    found = match(software(runtime=runtime, server=runtime), model, "rk3588")
    told = tuple(finding for finding in found if finding.code.startswith("runtime"))
    assert codes(told) == ([] if fits else ["runtime-unmeasured"])
    if not fits:
        assert told[0].severity == "warning"
        assert "Try it" in told[0].remedy


@pytest.mark.parametrize(
    ("runtime", "code"),
    [
        ("1.2.0", "runtime-old"),
        ("1.4.0", "runtime-old"),
        ("1.5.0", "runtime-unmeasured"),
        ("1.5.2", ""),
        ("1.6.0", ""),
        ("2.2.0", ""),
    ],
)
@pytest.mark.parametrize("toolkit", ["2.3.2", "1.4.0", ""])
def test_the_version_of_the_container_decides(runtime: str, code: str, toolkit: str) -> None:
    model = ModelFacts(generation=2, chips=("rk3588",), toolkit=toolkit, container=6)
    found = match(software(runtime=runtime, server=runtime), model, "rk3588")
    if code == "runtime-unmeasured" and toolkit != "2.3.2":
        code = ""  # nothing tells that it is too old
    assert [c for c in codes(found) if c.startswith("runtime")] == ([code] if code else [])
    if code == "runtime-old":
        assert "Invalid RKNN model version" in found[0].cause


def test_what_was_measured_of_containers() -> None:
    assert set(container_table()) == {("librknnrt", 6), ("librknnmrt", 4100)}
    for rows in container_table().values():
        worked = [works for _, works in rows]
        assert worked == sorted(worked), "a later release would do less than an earlier one"
    newest = Version.parse("2.3.2")
    assert newest is not None
    assert loads("librknnmrt", newest, 4100) is True
    assert loads("librknnmrt", newest, 4200) is None


@pytest.mark.parametrize(
    ("model", "chip_name", "versions", "code"),
    [
        (ModelFacts(generation=2, dynamic=True), "rk3588", {"runtime": "1.4.0"}, "runtime-dynamic"),
        (ModelFacts(generation=2, dynamic=True), "rk3588", {"server": "1.4.0"}, "server-dynamic"),
        (ModelFacts(generation=2, size=3 << 30), "rk3588", {"server": "1.6.0"}, "server-large"),
        (None, "rv1106", {"server": "2.0.0"}, "server-mini"),
        (None, "rk3566", {"driver": "0.9.3"}, "driver-memory"),
    ],
)
def test_what_needs_more(
    model: ModelFacts | None, chip_name: str, versions: dict[str, str], code: str
) -> None:
    old = software(**{"generation": 2, **versions})  # type: ignore[arg-type]
    assert code in codes(match(old, model, chip_name))
    assert code not in codes(match(software(), model, chip_name))


def test_the_edges_of_the_rules() -> None:
    dynamic = ModelFacts(generation=2, dynamic=True)
    assert match(software(runtime="1.5.0", server="1.5.0"), dynamic, "rk3588") == ()
    large = ModelFacts(generation=2, size=3 << 30)
    assert "server-large" not in codes(match(software(server="2.0.0b0"), large, "rk3588"))
    small = ModelFacts(generation=2, size=2 << 30)
    assert "server-large" not in codes(match(software(server="1.6.0"), small, "rk3588"))
    assert "driver-memory" not in codes(match(software(driver="0.9.4"), None, "rk3588"))


@pytest.mark.parametrize(
    ("generation", "chip_name"), [(1, "rk3588"), (2, "rk1808"), (2, "rk3399pro"), (1, "rv1126b")]
)
def test_a_model_of_the_other_generation(generation: int, chip_name: str) -> None:
    found = match(software(), ModelFacts(generation=generation, toolkit="9.9.9"), chip_name)
    assert codes(found)[0] == "other-generation"
    assert "runtime-old" not in codes(found), "one reason is enough"
    if chip_name == "rk3588":
        assert "invalid RKNN_MAGIC" in found[0].cause


def test_a_model_of_another_chip() -> None:
    found = match(software(), ModelFacts("net", 2, ("rk3566",)), "rk3588")
    assert codes(found) == ["other-chip"]
    assert "target_platform='rk3588'" in found[0].remedy
    for left, right in SAME_NPU:
        facts = chip(left)
        assert facts is not None
        model = ModelFacts(generation=facts.generation, chips=(left,))
        assert match(software(generation=facts.generation), model, right) == ()


def test_chips_of_one_npu_are_known_and_alike() -> None:
    names = {facts.name: facts.generation for facts in chips()}
    for pair in SAME_NPU:
        assert len({names[name] for name in pair}) == 1


@pytest.mark.parametrize(
    ("toolkit", "server", "driver", "runtime"),
    [
        ("1.7.5", "1.7.5", "6.4.6.5.351518", "1.7.5"),
        ("1.7.3", "1.7.3", "6.4.6.5.351518", "1.7.3"),
        ("1.7.2", "1.7.1", "6.4.6.5.351518", "1.7.1"),
        ("1.7.0", "1.7.0", "6.4.6.5.351518", "1.7.0"),
        ("1.6.1", "1.6.1", "6.4.3.5.293908", "1.6.1"),
        ("1.6.0", "1.6.0", "6.4.3.5.293908", "1.6.0"),
        ("1.4.0", "1.4.0", "6.4.0.227915", "1.4.0"),
        ("1.3.2", "1.3.2", "6.4.0.227915", "1.3.2"),
        ("1.1.0", "0.9.8", "6.3.3.2", "1.0.0"),
        ("1.0.0", "0.9.6", "6.3.3.2", "0.9.8"),
        ("1.9.0", "1.7.5", "6.4.6.5.351518", "1.7.5"),
    ],
)
def test_the_table_of_generation_1(toolkit: str, server: str, driver: str, runtime: str) -> None:
    version = Version.parse(toolkit)
    assert version is not None
    row = required_by_toolkit1(version)
    assert row is not None
    assert (str(row.server), str(row.driver), str(row.runtime)) == (server, driver, runtime)


def test_the_table_rises_and_names_its_sources() -> None:
    rows = toolkit1_table()
    assert [row.toolkit for row in rows] == sorted(row.toolkit for row in rows)
    assert [row.server for row in rows] == sorted(row.server for row in rows)
    assert [row.driver for row in rows] == sorted(row.driver for row in rows)
    assert all(row.source for row in rows)
    oldest = Version.parse("0.9.0")
    assert oldest is not None
    assert required_by_toolkit1(oldest) is None


def test_generation_1_against_its_table() -> None:
    fits = software(server="1.7.5", runtime="1.7.5", driver="6.4.6.5.351518", generation=1)
    model = ModelFacts("net", 1, ("rk1808",), "1.7.5")
    assert match(fits, model, "rk1808") == ()
    old = software(server="1.4.0", runtime="1.4.0", driver="6.4.0.227915", generation=1)
    assert codes(match(old, model, "rk1808")) == [
        "rknn-server-old",
        "librknn-runtime-old",
        "galcore-old",
    ]
    assert match(old, ModelFacts("net", 1, ("rk1808",), "1.3.0"), "rk1808") == ()


def test_copies_that_differ_and_releases_that_differ() -> None:
    old, new = part("librknnmrt", "1.6.0", "/a"), part("librknnmrt", "2.3.2", "/b")
    found = match(Versions(libraries=(old, new)), None, "rv1106")
    assert codes(found) == ["hidden-copy"]
    assert "/b (2.3.2) is hidden by /a (1.6.0)" in found[0].what
    assert codes(match(software(server="2.2.0"), None, "rk3588")) == ["server-differs"]
    assert match(software(server="2.3.0"), None, "rk3588") == ()


def test_the_gravest_comes_first() -> None:
    model = ModelFacts("net", 2, ("rk3588",), "2.3.2", container=6)
    found = match(software(runtime="1.4.0", driver="0.8.2", server="1.6.0"), model, "rk3588")
    assert [finding.severity for finding in found] == ["error", "warning", "info"]


@pytest.mark.zoo
def test_the_vendors_own_files_tell_their_toolkit(zoo: Path) -> None:
    folder = zoo / "rknn_vendor"
    path = folder / "multiple_input_RK3588.rknn"
    model = model_file(path)
    assert (model.generation, model.chips, model.size) == (2, ("rk3588",), path.stat().st_size)
    toolkit = Version.parse(model.toolkit)
    assert toolkit is not None
    exact = software(runtime=str(toolkit), server=str(toolkit))
    assert "runtime-old" not in codes(match(exact, model, "rk3588"))
    assert model.container == 6
    old = software(runtime="1.0.0", server="1.0.0")
    assert codes(match(old, model, "rk3588"))[0] == "runtime-old"
    both = model_file(folder / "dual_residual_RK3566_RK3568.rknn")
    assert "other-chip" not in codes(match(software(), both, "rk3568"))
    assert codes(match(software(), both, "rk3588"))[0] == "other-chip"
    first = model_file(folder / "resize_area_toolkit1.rknn")
    assert first.name == "resize_area_toolkit1.rknn"
    assert codes(match(software(), first, "rk3588"))[0] == "other-generation"
