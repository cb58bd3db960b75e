"""Figures of the chips: each has a source, an unknown one says so, products agree."""

from __future__ import annotations

import pytest

from engine.facts import Chip, chips
from engine.facts.figures import basis, figure, figures, number
from engine.facts.npu import npu_profile

NAMES = [each.name for each in chips()]
EVERY = {
    *("npu_mhz", "macs_int8", "macs_fp16", "tops_int8", "npu_buffer", "npu_cores"),
    *("memory_bits", "memory_mhz", "memory_bandwidth", "compiler_bus", "cpu", "cpu_mhz"),
    *("rates", "basis", "toolkit", "dtypes"),
}


@pytest.mark.parametrize("name", NAMES)
def test_every_chip_has_every_figure_once_with_its_source(name: str) -> None:
    rows = figures(name)
    names = [each.name for each in rows]
    assert set(names) >= EVERY
    assert len(names) == len(set(names))
    for row in rows:
        assert row.source
        assert row.known == (row.confidence != "none"), row
        assert row.text == "not known" or row.value in row.text


@pytest.mark.parametrize("one", chips(), ids=NAMES)
def test_figures_agree_with_the_table_of_chips(one: Chip) -> None:
    assert number(one.name, "npu_cores") == one.npu_cores
    told = {each.name: each.value for each in figures(one.name)}
    assert told["toolkit"] == one.toolkit
    assert told["dtypes"].split() == list(one.dtypes)


def test_there_are_fifteen_chips() -> None:
    assert len(NAMES) == 15


@pytest.mark.parametrize("name", NAMES)
def test_tops_agree_with_macs_and_clock(name: str) -> None:
    tops, macs, clock = (number(name, each) for each in ("tops_int8", "macs_int8", "npu_mhz"))
    if tops is None or macs is None or clock is None or name == "rk3576":
        return  # what the data sheet of RK3576 says is not explained by the compiler's MACs
    cores = next(each.npu_cores for each in chips() if each.name == name)
    assert cores * macs * 2 * clock / 1e6 == pytest.approx(tops, rel=0.06)


@pytest.mark.parametrize("name", NAMES)
def test_figures_agree_with_what_the_compiler_counts(name: str) -> None:
    npu = npu_profile(name)
    if npu is None:
        assert figure(name, "compiler_bus").text == "not known"  # type: ignore[union-attr]
        return
    assert number(name, "compiler_bus") == pytest.approx(npu.bytes_per_cycle, abs=0.001)
    if "int8" in npu.dtypes:
        assert number(name, "macs_int8") == npu.macs_in["int8"] * npu.macs_out["int8"]
    if "float16" in npu.dtypes:
        assert number(name, "macs_fp16") == npu.macs_in["float16"] * npu.macs_out["float16"]


def test_an_alias_and_an_unknown_chip() -> None:
    assert figures("RK3588S") == figures("rk3588")
    assert figures("rk9999") == ()
    assert figure("rk9999", "npu_mhz") is None
    assert number("rk9999", "npu_mhz") is None


def test_only_chips_with_published_rates_are_fitted() -> None:
    for name in NAMES:
        rates = figure(name, "rates")
        assert (basis(name) == "fitted") == (rates.value == "published")
    assert basis("rk3399pro") == "structural"
