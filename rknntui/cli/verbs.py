"""The verbs of the command line: in the order of the help, with what each does and where it lies.

A verb is declared with its method in ``engine.wire``: its words, a line about it, its place. They
are read there as text: importing the types of all verbs takes longer than start-up may. Only verbs
that ask for nothing of the kind have a row here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import engine.wire
from engine.wire.record import record

_OTHERS = "Others"
HEADINGS = ("Build", "Judge", "Chips", "Compile and deploy", "Boards", "Shell", _OTHERS)
"""Of the help; a verb that does not say its place is under the last."""


@record
class Place:
    """A verb, or a verb of a group (``hybrid table``).

    Attributes:
        about: what it does, in a line.
        after: the verb behind which it stands, or the heading that it is the first of.
        wire: the module of ``engine.wire`` that declares it; empty: none.
    """

    about: str
    after: str
    wire: str = ""


# fmt: off
_OWN = {
    "demo": Place("Run the main job on the demo model, then open the workbench on its result.",
             "Build"),
    "dataset": Place("Make or check a calibration dataset.", "inspect"),
    "recipe": Place("Write, check, show or compare recipes.", "dataset"),
    "script": Place("Run a Python script of the vendor's toolkit, unchanged, with this program.",
             "sweep"),
    "report": Place("Write all of a build as one HTML file, or one chart of it as SVG.",
               "export"),
    "hybrid": Place("Mixed precision: set the dtype of layers by files, proposal or search.",
             "evaluate"),
    "chips": Place("Compare the chips for a model, or list what is known of them.", "Chips"),
    "vendor": Place("Make, adopt, check and remove environments of the vendor's toolkits.",
             "Compile and deploy"),
    "devices": Place("Boards in reach, and an emulated one to try with.", "Boards"),
    "perf": Place("Time a model on a board, or estimate it for a chip; list and compare runs.",
             "run"),
    "completion": Place("Print the completion script of a shell.", "Shell"),
    "schema": Place("Print the JSON schemas of a verb: its parameters and its result.",
             "completion"),
}
# fmt: on
_METHOD = re.compile(r"^\w+ = (?:Query|Task)\((.*?)\)$", re.DOTALL | re.MULTILINE)
_WORDS = re.compile(r'\s*"[\w.]+",\s*\w+,\s*\w+,\s*"([\w ]+)"')
_ABOUT = re.compile(r'\sabout="([^"]*)"')
_AFTER = re.compile(r'\safter="([^"]*)"')


def _declared() -> Iterator[tuple[str, Place]]:
    """The verbs of methods that say what they do, out of the text of their modules."""
    for path in sorted(Path(engine.wire.__path__[0]).glob("*.py")):
        for method in _METHOD.findall(path.read_text("utf-8")):
            words, about, after = (part.search(method) for part in (_WORDS, _ABOUT, _AFTER))
            if words is not None and about is not None:
                place = _OTHERS if after is None else after[1]
                yield words[1], Place(about[1], place, path.stem)


def _in_order(places: Mapping[str, Place], behind: str) -> Iterator[str]:
    """The verbs behind one, or below a heading, each with those behind it."""
    for name, place in sorted(places.items()):
        if place.after == behind:
            yield name
            yield from _in_order(places, name)


_ALL = {**_OWN, **dict(_declared())}
_TOP = {name: place for name, place in _ALL.items() if " " not in name}
GROUPS = {heading: tuple(_in_order(_TOP, heading)) for heading in HEADINGS}
"""Heading -> its verbs, in the order of the help."""
VERBS = {name: _ALL[name] for names in GROUPS.values() for name in names}
"""The verbs in that order."""
OF_GROUPS = {name: place for name, place in _ALL.items() if " " in name}
"""The verbs of groups, by both words."""
