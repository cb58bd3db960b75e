"""Whether a board's software can run a model: generation, chip and versions against each other.

Sources: the table of generation 1 is ``data/toolkit1.csv``; of generation 2 the runtime has to be
at least as new as the toolkit that built the model, and ``_RULES`` holds what needs more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from engine.base.findings import Finding, Severity
from engine.base.text import sanitize
from engine.devices.probe.versions import MINI_CHIPS, Component, Version, Versions
from engine.facts import chip as chip_facts
from engine.facts import rows

SAME_NPU = (
    ("rk1808", "rk3399pro"),
    ("rv1109", "rv1126"),
    ("rk3566", "rk3568"),
    ("rv1103", "rv1106"),
    ("rv1103b", "rv1106b"),
)
"""Chips that run the same model file: the vendor names its folders and platforms by these pairs."""

LARGE = 2 << 30
"""Bytes from which on a model needs a newer server."""


@dataclass(frozen=True)
class ModelFacts:
    """What of a model decides where it runs.

    Attributes:
        name: for messages.
        generation: of the toolkit that built it; None where it is not known.
        chips: those it is compiled for; empty where it does not tell.
        toolkit: version that built it, as written; empty where it is not known.
        dynamic: whether it has several sets of input shapes.
        size: of the file in bytes.
        container: version of the file's container; None where it is not known.
        ours: whether it is a container of this program, which emulated boards alone run.
    """

    name: str = "the model"
    generation: int | None = None
    chips: tuple[str, ...] = ()
    toolkit: str = ""
    dynamic: bool = False
    size: int = 0
    container: int | None = None
    ours: bool = False


@dataclass(frozen=True)
class Toolkit1:
    """The versions that belong to one of generation 1's toolkits."""

    toolkit: Version
    server: Version
    driver: Version
    runtime: Version
    source: str


@cache
def toolkit1_table() -> tuple[Toolkit1, ...]:
    """All rows of the data file, oldest toolkit first."""
    parts = ("toolkit", "server", "driver", "runtime")
    return tuple(
        Toolkit1(**{part: _version(row[part]) for part in parts}, source=row["source"])
        for row in rows("engine.devices.probe", "data/toolkit1.csv")
    )


@cache
def container_table() -> Mapping[tuple[str, int], tuple[tuple[Version, bool], ...]]:
    """What releases of generation 2's runtimes did with models, as it was measured.

    Name of the library and version of a file's container -> whether each release loads it, oldest
    first.
    """
    table: dict[tuple[str, int], list[tuple[Version, bool]]] = {}
    for row in rows("engine.devices.probe", "data/containers.csv"):
        key = (row["library"], int(row["container"]))
        table.setdefault(key, []).append((_version(row["version"]), row["loads"] == "yes"))
    return {key: tuple(sorted(rows)) for key, rows in table.items()}


def loads(library: str, release: Version, container: int) -> bool | None:
    """Whether a runtime loads a container of this version; None where that was not measured.

    What a release loads, later ones load, too; what one does not load, earlier ones do not.
    """
    rows = container_table().get((library, container), ())
    if any(works for measured, works in rows if measured <= release):
        return True
    if any(not works for measured, works in rows if measured >= release):
        return False
    return None


def _version(text: str) -> Version:
    version = Version.parse(text)
    if version is None:
        raise ValueError(text)  # a mistake in the data file; a test reads all of it
    return version


def required_by_toolkit1(toolkit: Version) -> Toolkit1 | None:
    """The newest row that is not newer than a toolkit; None before the first one."""
    return next((row for row in reversed(toolkit1_table()) if row.toolkit <= toolkit), None)


@dataclass(frozen=True)
class _Rule:
    """What something asks of a component of generation 2's software, on one occasion.

    Sources: [RKNN-T2 2.3.0, 2.7 and 2.10] and the vendor's release notes.
    """

    occasion: str
    code: str
    component: str
    least: str
    why: str
    severity: Severity


_DYNAMIC = "Models with several sets of input shapes need"
_RULES = (
    _Rule("dynamic", "runtime-dynamic", "runtime", "1.5.0", _DYNAMIC, "error"),
    _Rule("dynamic", "server-dynamic", "server", "1.5.0", _DYNAMIC, "warning"),
    _Rule("large", "server-large", "server", "2.0.0b0", "Models larger than 2 GiB need", "warning"),
    _Rule("mini", "server-mini", "server", "2.1.0", "RV1103 and RV1106 need", "warning"),
    _Rule("memory", "driver-memory", "driver", "0.9.4", "eval_memory needs", "warning"),
)
"""A server that is too old disturbs only who goes through it."""


def match(versions: Versions, model: ModelFacts | None, chip: str | None) -> tuple[Finding, ...]:
    """What does not fit, the gravest first; empty where everything does.

    Args:
        versions: of the board.
        model: that is to run; None looks at the board alone.
        chip: of the board, by its name in :mod:`engine.facts`.
    """
    facts = chip_facts(chip) if chip else None
    generation = facts.generation if facts else None
    findings = list(_board(versions, chip, generation))
    if model is not None:
        strange = list(_belongs(model, chip, generation))
        findings += strange
        if not strange:
            findings += _versions_for(versions, model, generation)
    order = {"error": 0, "warning": 1, "info": 2}
    return tuple(sorted(findings, key=lambda finding: order[finding.severity]))


def _belongs(model: ModelFacts, chip: str | None, generation: int | None) -> Iterator[Finding]:
    """Whether a model is for another generation or another chip."""
    name = sanitize(model.name, 80)
    if chip is None or generation is None:
        return
    if model.generation is not None and model.generation != generation:
        yield Finding(
            "other-generation",
            "error",
            name,
            f"{name} is of generation {model.generation} and {chip} of generation {generation}.",
            "The runtime refuses it: parseRKNN: invalid RKNN_MAGIC!"
            if generation == 2
            else "The runtime refuses it.",
            f"Build it for {chip} with the toolkit of generation {generation}.",
        )
    elif model.chips and not same_npu(chip, model.chips):
        yield Finding(
            "other-chip",
            "error",
            name,
            f"{name} is compiled for {sanitize(', '.join(model.chips), 200)} and the board has "
            f"{chip}.",
            "A compiled model runs on the NPU that it was compiled for only.",
            f"Build it with target_platform='{chip}'.",
        )


def same_npu(chip: str, others: tuple[str, ...]) -> bool:
    """Whether a chip runs what was compiled for one of the others."""
    family = next((pair for pair in SAME_NPU if chip in pair), (chip,))
    return any(other in family for other in others)


def _versions_for(
    versions: Versions, model: ModelFacts, generation: int | None
) -> Iterator[Finding]:
    toolkit = Version.parse(model.toolkit)
    if toolkit is not None and generation == 1:
        yield from _generation_1(versions, toolkit)
    if generation == 2 and versions.runtime is not None and versions.runtime.version:
        yield from _runtime_for(versions.runtime, versions.runtime.version, model, toolkit)
    if generation == 2:
        occasions = ["dynamic"] * model.dynamic + ["large"] * (model.size > LARGE)
        yield from _by_rules(versions, *occasions)


def _runtime_for(
    runtime: Component, has: Version, model: ModelFacts, toolkit: Version | None
) -> Iterator[Finding]:
    """Whether generation 2's runtime loads the file: the version of its container decides."""
    works = None if model.container is None else loads(runtime.name, has, model.container)
    release = toolkit or "that built the model"
    remedy = (
        f"Copy {runtime.name}.so of the toolkit's release {release} to {runtime.path}, or "
        f"build the model with toolkit {has}."
    )
    if works is False:
        yield Finding(
            "runtime-old",
            "error",
            runtime.path,
            f"{runtime} does not load models whose container has version {model.container} "
            "(measured).",
            "librknnrt says: Invalid RKNN model version; some releases of librknnmrt crash in "
            "rknn_init.",
            remedy,
        )
    elif works is None and toolkit is not None and has < toolkit:
        yield Finding(
            "runtime-unmeasured",
            "warning",
            runtime.path,
            f"{runtime} is older than toolkit {toolkit}, which built the model.",
            "The version of the file's container decides; whether this release loads it is not "
            "known.",
            f"Try it. If it is refused: {remedy}",
        )


def _generation_1(versions: Versions, toolkit: Version) -> Iterator[Finding]:
    """The row of a toolkit against a board: what is older than it, and by how much."""
    row = required_by_toolkit1(toolkit)
    if row is None:
        return
    main = versions.runtime
    parts: tuple[tuple[Component | None, Version, Severity], ...] = (
        (versions.server, row.server, "error"),
        (main if main and main.name == "librknn_runtime" else None, row.runtime, "error"),
        (versions.driver, row.driver, "warning"),
    )
    for component, least, severity in parts:
        if component is not None and component.version and component.version < least:
            yield Finding(
                f"{component.name.replace('_', '-')}-old",
                severity,
                component.path,
                f"{component} is older than {least}, which belongs to toolkit {toolkit}.",
                f"The vendor's table pairs them [{row.source.strip('[]')}].",
                "Give the board newer firmware, or build the model with an older toolkit.",
            )


def _by_rules(versions: Versions, *occasions: str) -> Iterator[Finding]:
    for rule in _RULES:
        component: Component | None = getattr(versions, rule.component)
        if rule.occasion not in occasions or component is None or not component.version:
            continue
        if component.version < _version(rule.least):
            yield Finding(
                rule.code,
                rule.severity,
                component.path,
                f"{rule.why} {component.name} {rule.least} or later; here is {component.version}.",
                remedy=f"Update {component.name} of the board.",
            )


def _board(versions: Versions, chip: str | None, generation: int | None) -> Iterator[Finding]:
    """What does not fit on the board alone."""
    runtime, server = versions.runtime, versions.server
    if generation == 2:
        yield from _by_rules(versions, "memory")
    if chip in MINI_CHIPS:
        yield from _by_rules(versions, "mini")
    for copy in versions.hidden:
        winner = versions.libraries[0]
        yield Finding(
            "hidden-copy",
            "warning",
            copy.path,
            f"{copy.path} ({copy.version or 'unknown version'}) is hidden by {winner.path} "
            f"({winner.version or 'unknown version'}).",
            "The dynamic linker takes the first copy; the other was perhaps meant to replace it.",
            f"Remove the copy that is not wanted; programs get {winner.path}.",
        )
    releases = {c.version.release[:2] for c in (runtime, server) if c and c.version}
    if runtime and server and len(releases) > 1:
        yield Finding(
            "server-differs",
            "info",
            server.path,
            f"{server} and {runtime} are of different releases.",
            "The vendor publishes both together; the PC toolkit uses the server, programs on the "
            "board the library.",
            "Copy both from one release where the PC toolkit is used.",
        )
