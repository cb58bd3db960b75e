"""The tables of a project: options, samples, nodes, steps of the guide, jobs, its files."""

from __future__ import annotations

from collections.abc import Mapping

from engine.wire.dataset import Channel
from engine.wire.formats import FIGURE, NAME, NUMBER, SHORT_MOMENT, Format
from engine.wire.guide import Verdict
from engine.wire.table import (
    DTYPE,
    ESTIMATED_MS,
    FILE,
    LEAST,
    LINE,
    LOWEST_DB,
    MARK,
    MEAN,
    MEANING,
    MEDIAN_MS,
    MOST,
    NUMBERED,
    PROBLEM,
    SIZED,
    STATE,
    TOOK,
    VALUE,
    WHEN,
    Column,
    Meaning,
    Table,
    known,
)

_VERDICTS: dict[Verdict, tuple[str, Meaning]] = {
    "pass": ("✓", "good"),
    "warning": ("!", "warn"),
    "fail": ("✗", "bad"),
    "told": ("·", "dim"),
}
_JOB_SIGNS = {"running": "▶", "done": "✓", "failed": "✗", "lost": "✗", "cancelled": "!"}
_JOB_STATES: Mapping[str, Meaning] = {
    "running": "accent",
    "done": "good",
    "failed": "bad",
    "lost": "bad",
    "cancelled": "warn",
}
_SIGNED_STATES = {sign: state for state, sign in _JOB_SIGNS.items()}


def verdict_sign(verdict: Verdict) -> tuple[str, Meaning]:
    """Sign and meaning of what a step of the guide says."""
    return _VERDICTS[verdict]


def verdict_word(verdict: Verdict) -> str:
    """The word beside the sign; a step that only tells judges nothing."""
    return "note" if verdict == "told" else verdict


def _verdict(verdict: Verdict) -> str:
    return f"{verdict_sign(verdict)[0]} {verdict_word(verdict)}"


def _in_range(channel: Channel) -> str | None:
    if channel.expected is None:
        return None
    low, high = map(FIGURE.text, channel.expected)
    return f"{'✓' if channel.fits else '✗'} {low}..{high}"


# fmt: off
OPTIONS = Table("options", "An option of a recipe.", (
    Column("section", help="The part of the recipe that holds it."),
    Column("name", "option", help="Its name."),
    Column("default", format=NAME, help="Its value where you give none.",
           value=lambda option: option.render(option.default)),
    MEANING.but(key="help", help="What it does."),
))

OPTION_VALUES = Table("option-values", "An option of a recipe, and its value there.", (
    OPTIONS.column("section"),
    OPTIONS.column("name"),
    VALUE.but(value=None),
    Column("origin", "from", help="The recipe, or the default.", value=None),
))

CHANGED_OPTIONS = Table("changed-options", "An option that differs between two recipes.", (
    OPTIONS.column("name"),
    Column("first", format=NAME, help="Its value in the first recipe.", value=None),
    Column("second", format=NAME, help="Its value in the second recipe.", value=None),
))

SAMPLES = Table("samples", "A sample of a dataset.", (
    NUMBERED.but(help="Its place, from 1.", width=5),
    LINE.but(help="Of the list file.", width=5, from_width=60),
    FILE.but(key="name", help="Its files."),
    STATE.but(help="Whether it can be read.", width=9,
              style=lambda state: "good" if state == "✓" else "bad"),
    PROBLEM.but(width=20, from_width=90),
))

CHANNELS = Table("channels", "A channel of a sample as the network gets it.", (
    Column("channel", "ch", NUMBER, "Its place, from 0.", None, width=2),
    LEAST.but(width=3),
    MOST.but(width=3),
    MEAN.but(width=4, from_width=48),
    Column("std", format=FIGURE, help="Their standard deviation.", width=3, from_width=48),
    Column("expected", format=NAME, help="What mean and std make of pixels from 0 to 255, and "
           "whether the values lie in it.", value=_in_range, width=8,
           style=lambda text: "bad" if text and text[0] == "✗" else "good"),
))

GRAPH_NODES = Table("graph-nodes", "A node of a graph.", (
    NUMBERED.but(help="Its place, from 0.", value=None, width=5),
    Column("op", "operator", NAME, "The operator.", lambda node: node[1], width=12,
           style=lambda _: "accent"),
    Column("name", format=NAME, help="Its name.", value=lambda node: node[0], width=8, grow=1),
    Column("output", "first output", NAME, "Its first output.", lambda node: node[2],
           from_width=150),
    Column("shape", "shape of output", NAME, "The shape of its first output.",
           lambda node: node[3], width=11),
    DTYPE.but(help="The dtype of its first output.", value=lambda node: node[4]),
))

STEPS = Table("steps", "A step of the accuracy guide (simulated).", (
    Column("stage", format=NAME, help="The part of the procedure.", width=14, from_width=70),
    Column("title", "step of the guide", NAME, "What it looks at.", width=16, grow=3),
    Column("verdict", format=Format("a verdict with its sign", _verdict, right=False),
           help="What it says.", width=10, grow=1, style=lambda verdict: verdict_sign(verdict)[1]),
))

BUILDS = Table("builds", "A build of the history.", (
    MARK.but(name="marked", value=""),
    STATE.but(heading="", name="sign", help="How it ended.", width=1,
              value=lambda row: _JOB_SIGNS.get(row.state, "?"),
              style=lambda sign: _JOB_STATES.get(_SIGNED_STATES.get(sign, ""), "")),
    Column("started", "when", SHORT_MOMENT, "When it started.", width=11),
    Column("changes", help="What its recipe has that the one before had not.", format=NAME,
           width=16, grow=2),
    LOWEST_DB,
    Column("promoted", "prom.", NUMBER, "Layers with a dtype of their own.", known("promoted"),
           width=5, from_width=76),
    SIZED.but(help="Bytes of its container.", from_width=60),
    ESTIMATED_MS.but(help="Time of an inference on the recipe's chip.", from_width=96),
    MEDIAN_MS.but(help="Of an inference on a board, measured.", from_width=96),
    Column("score", "scored", NAME, "Of labelled samples, simulated.", width=6, from_width=1),
    Column("note", format=NAME, help="What you wrote about it.", value=known("note"), width=4,
           grow=1, from_width=1),
))

JOBS = Table("jobs", "A job of the history.", (
    MARK.but(name="marked"),
    WHEN.but(key="started", help="When it started."),
    Column("method", "job", help="What it does.", width=13),
    Column("title", "works on", NAME, "The model or file.", width=10, grow=1),
    STATE.but(help="How it ended.", width=9, style=lambda state: _JOB_STATES.get(state, "")),
    TOOK.but(width=8, value=lambda job: job.finished - job.started if job.finished else None),
))

FORMS = Table("forms", "A form that a build can be written in.", (
    Column("name", "form", NAME, "The form.", width=15),
    Column("purpose", "for", NAME, "What you need it for.", width=20, grow=2),
    Column("runs", "runs on", NAME, "What runs it.", width=14, grow=1),
    Column("path", "written to", NAME, "The file that was written.", None, width=12, grow=2,
           from_width=100),
))

PROJECT_SETTINGS = Table("project-settings", "A setting of a project for a board.", (
    Column("title", "setting", NAME, "What is set.", width=14),
    VALUE.but(width=12, grow=1),
    Column("about", name="about", format=NAME, width=20, grow=1, from_width=116),
))

PROJECT_FILES = Table("project-files", "A file of a project for a board.", (
    FILE.but(help="Its path in the project.", width=20),
))
# fmt: on
