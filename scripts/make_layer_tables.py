"""Write the table of all frameworks' layers in ``docs/reference/layers.md`` from the readers.

Usage: ``python scripts/make_layer_tables.py``. A test holds the file to the code. What a layer's
options mean, and what is refused of it, is in the framework's own chapter.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts.pages import REPOSITORY, Part, table, write

CHAPTER = REPOSITORY / "docs" / "frontends" / "onnx.md"
CASES = re.compile(
    r"<!-- backend node tests -->\n(.*?)<!-- end of backend node tests -->", re.DOTALL
)
CASE = re.compile(r"^\| `(?P<case>\S+)` \| (?P<outcome>.*?) \| (?P<why>.*) \|$", re.MULTILINE)


ONNX = (
    "every operator of ONNX, opset 1 to 28, that opset 21 can express; control flow that sizes "
    "decide; `com.microsoft`'s QLinear and fused ones; registered custom operators"
)
CASES_TITLE = """### ONNX's backend node tests

Operators that RKNN-Toolkit2 2.3.2 lists for ONNX; cases with float32, int32, int64 and bool
inputs, without the expanded ones; each is brought to opset 21 and must give the case's own outputs.
A long test holds the figures."""


def _listed(names: Iterable[str]) -> str:
    return ", ".join(
        f"`{name}`" for name in sorted(set(names), key=lambda name: (name.casefold(), name))
    )


def layer_table() -> str:
    """A row for each framework: what is read, what is refused by its name."""
    from engine.frontends.caffe import layers as caffe
    from engine.frontends.darknet import network as darknet
    from engine.frontends.mxnet import operators as mxnet
    from engine.frontends.tensorflow.selection import SUPPORTED
    from engine.frontends.tflite import ops as tflite
    from engine.frontends.tflite.convert import OPERATORS

    rows = [
        ("Caffe", _listed(caffe.LAYERS), _listed(caffe.REFUSED)),
        ("Darknet", _listed(darknet.LAYERS), _listed(darknet.REFUSED_LAYERS)),
        ("MXNet", _listed(mxnet.OPERATORS), f"{_listed(mxnet.CUT_HERE)}, and others"),
        (
            "TFLite",
            _listed({*tflite.HANDLERS, *OPERATORS}),
            f"{_listed(tflite.REFUSALS.keys() - OPERATORS)}, custom and Flex ones",
        ),
        ("TensorFlow", _listed(SUPPORTED), "all others, with the reason"),
        (
            "PyTorch",
            "what one of `torch.onnx`'s exporters converts, and what is said in its chapter",
            "operators of other libraries (`torchvision::nms`), and what no exporter converts",
        ),
        ("ONNX", ONNX, "see below"),
    ]
    return "\n".join(table(("framework", "read", "refused by name"), rows))


def backend_cases() -> str:
    """The rate of ONNX's backend node tests and the cases that miss, joined by their reason."""
    match_of_section = CASES.search(CHAPTER.read_text(encoding="utf-8"))
    if match_of_section is None:
        raise SystemExit(f"{CHAPTER} has no section of backend node tests")
    text = match_of_section[1]
    by_reason: dict[tuple[str, str], list[str]] = {}
    for match in CASE.finditer(text):
        by_reason.setdefault((match["outcome"], match["why"]), []).append(match["case"])
    rows = ((outcome, why, _listed(cases)) for (outcome, why), cases in by_reason.items())
    lines = [text.strip().split("\n")[0], "", *table(("outcome", "reason", "cases"), rows)]
    return "\n".join(lines)


def layers() -> str:
    """Both tables."""
    return "\n\n".join((layer_table(), CASES_TITLE, backend_cases()))


PARTS = (Part("reference/layers.md", "layers", "make_layer_tables", layers),)

if __name__ == "__main__":
    write(PARTS)
