"""What was made of a model or data, in words: encrypted files, segments, projects, environments."""

from __future__ import annotations

from engine.base.text import human_bytes, sanitize
from engine.reports.files import table_lines
from engine.reports.texts import words
from engine.reports.texts.model import finding_lines, segment_lines
from engine.wire.build_tables import CUTS, ENVIRONMENTS, toolkit_name
from engine.wire.codegen import Generated
from engine.wire.dataset import DatasetFacts, Made
from engine.wire.encryption import Decrypted, Encrypted, PlainCopy
from engine.wire.segments import Segments
from engine.wire.vendor import ToolkitEnvironment, ToolkitRemoved, Toolkits


@words.register
def _encrypted(found: Encrypted) -> list[str]:
    how = "AES-256-GCM, with your key" if found.ours else sanitize(found.toolkit)
    lines = [_written(found), f"encrypted, level {found.level} ({how})"]
    return [*lines, *finding_lines(found.findings), *_plain(found)]


@words.register
def _decrypted(found: Decrypted) -> list[str]:
    return [_written(found)]


def _written(file: Encrypted | Decrypted) -> str:
    return f"{sanitize(file.path)}: {human_bytes(file.size)}, SHA-256 {file.sha256}"


_WORDS = {
    "model": "what was encrypted",
    "side file": "its side file",
    "source": "its source model, wherever it lies",
    "dataset": "its samples, wherever they lie",
    "cache": "this program's cache of all models",
}


def _plain(encrypted: Encrypted) -> list[str]:
    """What holds the model in plain form, and what was removed of it."""
    text = [f"removed: {_copy(copy)}" for copy in encrypted.wiped]
    if encrypted.stays:
        text += ["in plain form there is still:", *(f"  {_copy(copy)}" for copy in encrypted.stays)]
    if any(copy.ours for copy in encrypted.stays):
        text.append("--wipe removes what this program wrote of it (with --force).")
    return text


def _copy(one: PlainCopy) -> str:
    size = "" if one.size is None else f", {human_bytes(one.size)}"
    return f"{sanitize(one.name, 300)} ({_WORDS[one.what]}{size})"


@words.register
def _segments(found: Segments, *, layers: bool = True) -> list[str]:
    """``layers``: whether what a cut behind each costs is told, too."""
    lines = _layer_lines(found) if layers else []
    if found.segments:
        title = f"times estimated for {found.chip}" if found.chip else "no chip, so no times"
        lines += [*([""] * bool(lines)), *segment_lines(found.segments, title)]
    lines += finding_lines(found.findings)
    if found.path:
        how = f" by {sanitize(found.toolkit)}" if found.toolkit else ""
        size = human_bytes(found.size)
        lines.append(f"{sanitize(found.path)}: {size}, SHA-256 {found.sha256}{how}")
    return lines


def _layer_lines(cuts: Segments) -> list[str]:
    lines = table_lines(CUTS, cuts.layers)
    if any(layer.with_next for layer in cuts.layers):
        lines.append("+ computed together with the next layer (estimated)")
    return lines


@words.register
def _generated(result: Generated) -> list[str]:
    lines = [f"{sanitize(result.path, 500)}: {len(result.files)} files"]
    for finding in result.findings:
        lines.append(f"{finding.severity}: {sanitize(finding.what)}")
        lines += [f"  {sanitize(line)}" for line in finding.remedy.split("\n") if line]
    return [*lines, "Its README.md says how to build and run it."]


@words.register
def _environment(environment: ToolkitEnvironment) -> list[str]:
    mark = ", the default" if environment.default else ""
    lines = [
        f"{sanitize(environment.name)}: {environment.state}{mark}",
        f"  {toolkit_name(environment)}",
    ]
    lines.append(
        f"  {sanitize(environment.python, 4000)} ({environment.python_version or 'Python'})"
    )
    for one in environment.findings:
        lines.append(f"  {one.severity}: {one.what}")
        lines += [f"    {part}" for part in (one.cause, one.remedy) if part]
    return lines


@words.register
def _environments(known: Toolkits) -> list[str]:
    if not known.environments:
        return ["none yet: rknntui vendor install"]
    lines = table_lines(ENVIRONMENTS, known.environments)
    for one in known.environments:
        lines += [f"{sanitize(one.name)}: {finding.what}" for finding in one.findings]
    return lines


@words.register
def _removed(found: ToolkitRemoved) -> list[str]:
    if found.files_removed:
        return [f"removed {found.name}: {found.folder}, {human_bytes(found.freed)}"]
    return [f"forgot {found.name}; {found.folder} stays as it is"]


@words.register
def _made(made: Made) -> list[str]:
    lines = [f"{made.path}: {made.samples} samples"]
    return lines + [f"skipped {sanitize(s.file)}: {sanitize(s.why)}" for s in made.skipped]


@words.register
def _dataset(checked: DatasetFacts) -> list[str]:
    lines = [f"{checked.samples} samples, {checked.files} files"]
    lines += [f"line {p.line}: {sanitize(p.file)}: {sanitize(p.what)}" for p in checked.problems]
    lines += [f"{f.severity}: {sanitize(f.what)}" for f in checked.findings]
    return lines
