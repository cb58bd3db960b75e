"""The verbs that estimate: chips, perf estimate, memory --chip, check; reports and gates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest

from tests.cli.conftest import Ran, Run
from tests.graph.models import finish, nodes_of, tensor


@pytest.fixture
def cost(warm: Run, demo: Path) -> Run:
    """``rknntui WORDS``, with the demo model for ``MODEL``."""

    def run(words: str, **how: Any) -> Ran:
        model = demo / "digits_demo.onnx"
        return warm(*(model if word == "MODEL" else word for word in words.split()), **how)

    return run


def test_chips_side_by_side(cost: Run) -> None:
    ran = cost("chips MODEL --json -q", exit=0)
    chips = {each["chip"]: each for each in ran.json["chips"]}
    assert len(chips) == 15
    assert all(each["label"] == "estimated" for each in chips.values())
    assert chips["rk3588"]["time_ms"]["low"] < chips["rk3588"]["time_ms"]["high"]
    assert chips["rk3588"]["layers"] == []
    text = cost("chips MODEL --chip rk3588 -q", says="estimated").out
    assert "rk3566" not in text


def test_chips_are_ranked_and_marked(cost: Run) -> None:
    found = cost("chips MODEL --sort fps --json -q").json["chips"]
    rates = [each["fps"]["value"] for each in found if each["fps"] is not None]
    assert len(rates) > 5
    assert rates == sorted(rates, reverse=True)
    middle = rates[len(rates) // 2]
    text = cost(f"chips MODEL --sort fps --fps {middle:.1f} -q").out
    assert "reaches" in text.splitlines()[2].split()
    assert {"yes", "no", "maybe"} <= set(text.split())
    asked = cost(f"chips MODEL --fps {middle:.1f} --json -q").json
    assert asked["fps_asked"] == pytest.approx(middle, abs=0.1)
    for each in asked["chips"]:
        fps = each["fps"]
        if fps is None:
            assert each["reaches"] == ""
        else:
            places = {"yes": fps["low"] >= asked["fps_asked"]}
            places["no"] = fps["high"] < asked["fps_asked"]
            places["maybe"] = not any(places.values())
            assert [name for name, holds in places.items() if holds] == [each["reaches"]]
    assert {each["reaches"] for each in found} == {""}


def test_chips_without_a_model_are_facts_with_sources(cost: Run) -> None:
    figures = cost("chips --chip rk3588 --json").json["chips"][0]["figures"]
    assert figures
    assert all(each["source"] for each in figures)
    cost("chips", says="rk1808")


def test_perf_of_a_chip_is_estimated_per_layer(cost: Run) -> None:
    one = cost("perf estimate MODEL --chip rk3566 --json -q", exit=0).json["chips"][0]
    assert one["label"] == "estimated"
    assert sum(row["total_cycles"] for row in one["layers"]) == one["total_cycles"] > 0
    cost("perf estimate MODEL --chip rk3566 -q", says="(estimated)")


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ("perf --history", 0, "No run is kept."),
        ("perf --compare a b", 2, "There is no measured run 'a'"),
        ("perf MODEL --calibrate newest", 2, "No measured run"),
        ("perf MODEL --calibrate=newest", 2, "No measured run"),
        ("perf MODEL --chip rk3588 --fail-over 10s", 0, "(estimated)"),
        ("perf --chip=rk3588 MODEL", 0, "(estimated)"),
        ("perf MODEL --chip rk3588 --cores 0_1", 2, "rknntui perf estimate --cores 3"),
        ("perf MODEL --chip rk3588 --device local", 2, "give one"),
        ("perf MODEL --report a.csv", 2, "rknntui perf estimate"),
        ("perf MODEL --device nobody", 9, "no .rknn file"),
        ("perf estimate MODEL", 2, "Name a chip"),
    ],
)
def test_flags_that_chose_what_perf_does_lead_to_its_commands(
    cost: Run, words: str, code: int, told: str
) -> None:
    cost(words, exit=code, says=told)


@pytest.mark.parametrize(
    "words",
    [
        "chips --fps 25 -q",
        "chips --fail-over 1ms -q",  # a gate that cannot fail
        "chips --report chips.html -q",
        "chips MODEL --report report.doc",
        "chips MODEL --chip rk3588 --input-size nobody=1,3,32,32",
        "chips MODEL --chip rk3588 --input-size x=1,3,many",
        *(f"chips MODEL --chip rk3566 --npu-mhz {wrong}" for wrong in ("nan", "inf", "0", "-1")),
        "memory MODEL --chip rk3588 --device local",
        "perf MODEL --advice",
        "perf history --fail-over 1ms",
        "perf estimate MODEL --chip rk3588 --fail-over 20apples",
        "perf estimate MODEL --chip rk3588 -q --threads 2",
        "perf estimate MODEL --chip rk3588 -q --cores 0_1",
    ],
)
def test_a_flag_that_would_say_nothing_or_something_wrong_is_refused(cost: Run, words: str) -> None:
    cost(words, exit=2)


def test_memory_of_a_chip_is_estimated(cost: Run) -> None:
    memory = cost("memory MODEL --chip rk3566 --json -q").json["chips"][0]["memory"]
    assert memory["total"] == memory["internal"] + memory["weight"] > 0


def test_check_tells_where_layers_run(cost: Run) -> None:
    one = cost("check MODEL --chip rk3588 --json -q").json["chips"][0]
    assert one["npu_layers"] > 0
    assert len(one["rows"]) == one["cpu_layers"] + one["refused_layers"]


def test_check_of_generation_1_finds_no_zero_where_nothing_is_known(
    warm: Run, tmp_path: Path
) -> None:
    ends = ([tensor(name, 1, 8, 4, 4)] for name in "xy")
    onnx.save(finish(nodes_of("r = Relu (x); y = Exp (r)"), *ends, opset=17), tmp_path / "m.onnx")
    asked = ("check", tmp_path / "m.onnx", "--chip", "rk1808", "-q")
    one = warm(*asked, "--json").json["chips"][0]
    assert (one["npu_layers"], one["cpu_layers"], one["unknown_layers"]) == (1, None, 1)
    assert [row["target"] for row in one["rows"]] == ["unknown"]
    ran = warm(*asked)
    counts = dict(zip(*(line.split() for line in ran.out.splitlines()[2:4]), strict=True))
    assert (counts["CPU"], counts["unknown"]) == ("-", "1")
    warm(*asked, "--fail-cpu", "0", exit=14)  # it may be one
    warm(*asked, "--fail-cpu", "1", exit=0)
    found = warm("chips", tmp_path / "m.onnx", "--chip", "rk1808", "-q")
    head, row = (line.split() for line in found.out.splitlines()[2:4])
    assert "unknown" in head
    assert row.count("1") >= 2
    assert "not public" in found.out


def test_check_takes_another_size_of_an_input(cost: Run) -> None:
    cost("check MODEL --chip rk3588 -q --input-size 1,1,64,64", exit=0)
    ran = cost("check MODEL --chip rk3588 -q --input-size 1,0,64,64 --json")
    assert ran.code != 0
    assert ran.json["error"]["remedy"]


def test_an_unknown_chip_is_told_with_the_nearest(cost: Run) -> None:
    ran = cost("chips MODEL --chip rk3589 --json -q", exit=2)
    assert "rk3588" in ran.json["error"]["remedy"]


@pytest.mark.parametrize(("limit", "code"), [("1us", 14), ("10s", 0)])
def test_a_gate_of_time_decides_the_exit_code(cost: Run, limit: str, code: int) -> None:
    ran = cost(f"perf estimate MODEL --chip rk3588 --fail-over {limit} --json -q", exit=code)
    assert [gate["ok"] for gate in ran.json["gates"]] == [code == 0]


def test_gates_of_memory_and_of_layers_on_the_cpu(cost: Run) -> None:
    ran = cost("chips MODEL --chip rk3588 --fail-memory 1KiB --fail-cpu 999", exit=14)
    assert "FAILED: memory of rk3588" in ran.out
    assert "kept: layers on the CPU" in ran.out
    cost("check MODEL --chip rk3588 --fail-cpu 999", exit=0)
    cost("perf estimate MODEL --chip rk3588 -q --cores 2 --fail-memory 1GB", exit=0)


@pytest.mark.parametrize("form", ["csv", "html", "svg"])
def test_a_report_is_written_once(cost: Run, tmp_path: Path, form: str) -> None:
    asked = f"chips MODEL --chip rk3588 -q --report report.{form}"
    cost(asked, exit=0)
    assert "estimated" in (tmp_path / f"report.{form}").read_text(encoding="utf-8")
    cost(asked, exit=11)
    cost(f"{asked} --force", exit=0)


def test_another_input_size_costs_something_else(cost: Run) -> None:
    asked = "chips MODEL --chip rk3588 --json -q"
    plain = cost(asked).json["chips"][0]
    small = cost(f"{asked} --input-size 1,3,32,32")
    if small.code == 0:  # a network with a fixed head refuses other sizes
        assert small.json["chips"][0]["macs"] < plain["macs"]
    cost(f"{asked} --input-size 1,3,32,32 --input-size 1,3,64,64", says="Two sizes are given")


def test_what_if_is_float16_or_another_clock(cost: Run) -> None:
    plain, half, slow = (
        cost(f"chips MODEL --chip rk3566 --json -q {more}").json["chips"][0]
        for more in ("", "--dtype float16", "--npu-mhz 500")
    )
    assert half["total_cycles"] > plain["total_cycles"]
    assert slow["time_ms"]["value"] > plain["time_ms"]["value"]
    assert slow["npu_mhz"] == 500


def test_a_calibration_needs_a_measured_run(cost: Run) -> None:
    ran = cost("perf calibrate MODEL --json", exit=2)
    assert "No measured run" in ran.json["error"]["what"]


def test_a_build_is_a_gate(warm: Run, demo: Path) -> None:
    asked = ("build", next(demo.glob("*.onnx")), "--dataset", demo / "dataset.txt", "--json", "-q")
    high = warm(*asked, "--fail-under", "200dB", exit=14)
    assert high.json["gates"][0]["label"] == "simulated"
    limits = ("--fail-under", "0dB", "--fail-over", "10s", "--fail-memory", "1GiB")
    kept = warm(*asked, *limits, "--target-platform", "rk3588", exit=0)
    assert [gate["figure"] for gate in kept.json["gates"]] == ["SQNR", "time", "memory"]
    without = warm(*asked, "--fail-over", "10s", exit=2)
    assert "--target-platform" in without.json["error"]["remedy"]
    warm(*asked, "--fail-over", "1us", "--target-platform", "rk3588", exit=14)
    worst = warm("accuracy", *asked[1:], "--fail-under", "200dB", exit=14)
    assert len(worst.json["gates"]) == 1


def test_advice_stands_behind_the_layers_for_the_clock_that_is_asked_for(cost: Run) -> None:
    asked = "perf estimate MODEL --chip rk3566 --npu-mhz 300 --advice -q"
    told = cost(f"{asked} --json", exit=0).json
    (advice,) = told["advice"]
    assert advice["chip"] == "rk3566"
    assert advice["time_ms"] == pytest.approx(told["chips"][0]["time_ms"]["value"])
    cost(asked, says="To make it faster on rk3566 (estimated)")


def test_a_search_within_a_budget_of_time(warm: Run, demo: Path) -> None:
    model = next(demo.glob("*.onnx"))
    asked = ("--dataset", demo / "dataset.txt", "-q", "--json")
    on_chip = (*asked, "--target-platform", "rk3588")
    base = warm("chips", model, "--chip", "rk3588", "-q", "--json").json["chips"][0]
    budget = 1.1 * base["time_ms"]["value"]
    found = warm(
        "hybrid", "search", model, *on_chip, "--budget-ms", str(budget), "--budget", "2"
    ).json
    assert found["best"]["time_ms"] <= budget
    ranking = warm("hybrid", "propose", model, *on_chip, "--budget", "1").json["ranking"]
    assert ranking[0]["promote_ms"] is not None
    refused = warm("hybrid", "propose", model, *asked, "--budget-ms", "5", exit=2)
    assert "target_platform" in refused.json["error"]["remedy"]
