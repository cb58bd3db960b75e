"""A compiled model in words: printed beside estimated, the second opinion, the file."""

from __future__ import annotations

from dataclasses import replace

import engine
from tests.tui.compile_answers import compiled


def test_what_the_compiler_printed_stands_beside_the_estimate() -> None:
    found = replace(compiled("rk3588"), log="/tmp/log\x1b[31m.txt")
    totals, opinion, file, side, log = engine.compiled_facts(found)
    assert "cycles 20,400 printed, 20,000 estimated (+2.0 % over 5 of 5 layers)" in totals
    assert opinion.startswith("second opinion (simulated) logits: 99.950 % equal, at most 1 steps")
    assert file.startswith("/tmp/digits-rk3588.rknn · ")
    assert "(measured)" in file
    assert side == f"side file: {found.side_file}"
    assert "\x1b" not in log
    cached = replace(found, cached=True, total_cycles=None, weight_bytes=None, outputs=())
    cached = replace(cached, estimated_weight_bytes=None, internal_bytes=None, log="")
    totals, file, _ = engine.compiled_facts(replace(cached, estimated_internal_bytes=None))
    assert totals == "compiled: the compiler printed no totals for this chip"
    assert file.endswith("from the cache")
    failed = replace(found, problem="The compiler aborted.", side_file="", log="")
    assert list(engine.compiled_facts(failed)) == [opinion], "of a chip that failed"
