"""What differs between two builds, in words: for the workbench, and for scripts."""

from __future__ import annotations

from typing import Any

from engine import BuildRow, JobRecord, compare_builds, sections_text


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
    hostile = build({"\x1b[31mred": 3.0}, dataset="a\nb\x1b]0;x\x07")
    assert "\x1b" not in said(before, hostile)
