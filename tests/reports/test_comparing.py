"""What differs between two builds, in words: for the workbench, and for scripts."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from engine import BuildRow, JobRecord, UsageError, build_times, compare_builds, sections_text
from engine.wire.cost import ChipEstimate, EstimateParams, Estimates, Interval


def build(outputs: dict[str, float], **recipe: Any) -> BuildRow:
    rows = [{"name": name, "sqnr_db": db} for name, db in outputs.items()]
    finding = {"code": "c", "where": "y", "what": f"Softmax in {len(recipe)}."}
    worst = [{"layer": f"stage{'/x' * 40}/Conv", "sqnr_db": outputs.get("boxes", 1.0)}]
    found = [finding] if recipe else []
    size = 1024 * (1 + len(recipe))
    summary = {"outputs": rows, "findings": found, "container_bytes": size, "worst": worst}
    params = {"recipe": recipe}
    return BuildRow(
        JobRecord("no job", "build", "x", "done", 0.0, 1.0, params, summary, None, ""),
        time_ms=1.0 + len(recipe),
    )


def said(before: BuildRow, after: BuildRow) -> str:
    return sections_text(compare_builds(before, after))


def test_outputs_layers_figures_options_and_findings() -> None:
    before = build({"boxes": 24.0, "scores": 40.0, "same": 9.0})
    layers = {"Concat_12": "float16"}
    after = build({"boxes": 21.5, "scores": 41.5, "same": 9.0}, quantized_layers=layers)
    text = said(before, after)
    assert "✗ regression: boxes 24.00 dB → 21.50 dB" in text
    assert "✓ better: scores 40.00 dB → 41.50 dB" in text
    assert "! slower: time (estimated) +100.0 %" in text
    rows = [row.split() for row in text.splitlines()]
    assert ["✗", "24.00", "21.50", "-2.50", "boxes"] in rows
    assert ["✓", "40.00", "41.50", "+1.50", "scores"] in rows
    assert ["9.00", "9.00", "same"] in rows
    assert text.index(" boxes") < text.index(" scores") < text.index("Worst layers")
    assert f"-2.50   stage{'/x' * 40}/Conv" in text, "a name is whole, whatever its length"
    assert ["size", "1.00", "KiB", "2.00", "KiB", "+100.0", "%"] in rows
    assert "quantized_layers: Concat_12: as the model → float16" in text
    assert "! Softmax in 1. (new)" in text
    assert "✓ Softmax in 1. (gone)" in said(after, before)


def test_the_same_and_what_is_hostile() -> None:
    before = build({"boxes": 24.0})
    assert "= no output changed by 0.5 dB or more" in said(before, before)
    assert said(before, before).count("the same") == 2
    after = replace(before, changes="kl_divergence")
    assert said(before, after).splitlines()[0].endswith(" kl_divergence"), "which one it is"
    hostile = build({"\x1b[31mred": 3.0}, dataset="a\nb\x1b]0;x\x07")
    assert "\x1b" not in said(before, hostile)


def test_times_of_builds_are_estimated_one_after_the_other() -> None:
    asked: list[tuple[str, tuple[str, ...]]] = []

    async def ask(_method: Any, params: EstimateParams) -> Estimates:
        model = str((params.recipe or {})["model"])
        asked.append((model, params.chips))
        if model == "gone":
            raise UsageError("It is gone.")
        time = Interval(2.5, 2.0, 3.0)
        chip = ChipEstimate(params.chips[0], 2, "int8", 1, 1, 1000.0, "fitted", time_ms=time)
        return Estimates(model, (chip,), 0.1)

    async def times(chip: str | None) -> list[tuple[str, float | None]]:
        own = {"model": "m", "target_platform": "rk3566"}
        builds = [("a", own), ("b", {"model": "gone"}), ("c", {"model": "m"})]
        return [one async for one in build_times(ask, builds, chip)]

    assert asyncio.run(times("rk3588")) == [("a", 2.5), ("b", None), ("c", 2.5)]
    assert asked == [(name, ("rk3588",)) for name in ("m", "gone", "m")]
    assert asyncio.run(times(None)) == [("a", 2.5), ("b", None), ("c", None)]
    assert asked[3:] == [("m", ("rk3566",))], "each for its own chip, where it names one"
