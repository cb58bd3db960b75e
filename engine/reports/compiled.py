"""A compiled model in words: what the compiler printed, the second opinion, what was written.

Each text is one fact, and says what its figures are: printed by the compiler, estimated, simulated
or measured. Names in it are safe for a terminal.
"""

from __future__ import annotations

from collections.abc import Iterator

from engine.base.text import sanitize
from engine.wire.build_tables import AGREEMENT, compared_cycles
from engine.wire.compile import Compiled, OutputAgreement
from engine.wire.formats import CHANGE, DURATION, SIZE
from engine.wire.table import since

_QUANTIZED = {"ours": "quantized here", "vendor": "quantized by the vendor", "nobody": "float16"}


def compiled_facts(found: Compiled) -> Iterator[str]:
    """Cycles and memory beside our estimate, each output beside the build's, the file and its time.

    Of a chip that failed, the outputs that were compared.
    """
    if not found.problem:
        yield f"compiled: {_totals(found)}"
    yield from map(_agreement, found.outputs)
    if not found.problem:
        yield _file(found)
    for label, path in (("side file", found.side_file), ("log", found.log)):
        if path:
            yield f"{label}: {sanitize(path, 400)}"


def _totals(found: Compiled) -> str:
    """What the compiler printed, beside our estimate."""
    parts = []
    if found.total_cycles is not None:
        text = f"cycles {found.total_cycles:,} printed"
        if (known := compared_cycles(found.layers)) is not None:
            printed, estimated, count = known
            of = sum(row.total_cycles is not None for row in found.layers)
            moved = since(printed, estimated)
            change = "" if moved is None else CHANGE.text(moved)
            text += f", {estimated:,} estimated ({change} over {count} of {of} layers)"
        parts.append(text)
    for label, printed_bytes, estimated_bytes in (
        ("weights", found.weight_bytes, found.estimated_weight_bytes),
        ("internal", found.internal_bytes, found.estimated_internal_bytes),
    ):
        pair = ((printed_bytes, "printed"), (estimated_bytes, "estimated"))
        if sizes := [f"{SIZE.text(size)} {word}" for size, word in pair if size is not None]:
            parts.append(f"{label} {', '.join(sizes)}")
    return " · ".join(parts) or "the compiler printed no totals for this chip"


def _agreement(row: OutputAgreement) -> str:
    """The vendor's simulator on an output, beside ours; both are simulated."""
    texts = {column.key: sanitize(column.show(row), 300) for column in AGREEMENT.columns}
    equal = "" if texts["equal"] == "-" else f"{texts['equal']} % equal, "
    steps = "" if texts["max_steps"] == "-" else f"at most {texts['max_steps']} steps apart, "
    return (
        f"second opinion (simulated) {texts['name']}: {equal}{steps}cosine {texts['cosine']}, ours "
        f"{texts['our_sqnr_db']} dB, the vendor's {texts['sqnr_db']} dB, samples "
        f"{texts['samples']}"
    )


def _file(found: Compiled) -> str:
    """File, size, digest, toolkit, whose quantization, time."""
    parts = (
        sanitize(found.path, 400),
        SIZE.text(found.size) if found.size else "",
        f"SHA-256 {found.sha256[:16]}…" if found.sha256 else "",
        sanitize(found.toolkit, 60),
        _QUANTIZED[found.quantized_by],
        "from the cache"
        if found.cached
        else f"compiled in {DURATION.text(found.seconds)} (measured)",
    )
    return " · ".join(filter(None, parts))
