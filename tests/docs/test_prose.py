"""The pages that newcomers read are in short sentences, of plain words.

The goal is 20 words a sentence on every page. Pages with another limit were not rewritten yet;
a limit is lowered with the page, and never raised.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.docs.prose import Sentence, sentences

GOAL = 20
LIMITS = {
    "README.md": GOAL,
    "CONTRIBUTING.md": GOAL,
    "SECURITY.md": GOAL,
    "compat/README.md": GOAL,
    "docs/README.md": GOAL,
    "docs/accuracy.md": GOAL,
    "docs/api.md": GOAL,
    "docs/architecture.md": GOAL,
    "docs/cli.md": GOAL,
    "docs/container.md": GOAL,
    "docs/custom-operators.md": GOAL,
    "docs/dataset.md": GOAL,
    "docs/devices.md": GOAL,
    "docs/dtypes.md": GOAL,
    "docs/frontends.md": GOAL,
    "docs/frontends/caffe.md": GOAL,
    "docs/frontends/darknet.md": GOAL,
    "docs/frontends/mxnet.md": GOAL,
    "docs/frontends/onnx.md": GOAL,
    "docs/frontends/pytorch.md": GOAL,
    "docs/frontends/tensorflow.md": GOAL,
    "docs/frontends/tflite.md": GOAL,
    "docs/glossary.md": GOAL,
    "docs/graph.md": GOAL,
    "docs/hybrid.md": GOAL,
    "docs/installation.md": GOAL,
    "docs/jobs.md": GOAL,
    "docs/python.md": GOAL,
    "docs/measurements/arithmetic.md": GOAL,
    "docs/measurements/compiled.md": GOAL,
    "docs/options.md": GOAL,
    "docs/passes.md": GOAL,
    "docs/performance.md": GOAL,
    "docs/quantization.md": GOAL,
    "docs/quantization/accurate.md": GOAL,
    "docs/quantization/algorithms.md": GOAL,
    "docs/quantization/vendor.md": GOAL,
    "docs/recipe.md": GOAL,
    "docs/references.md": GOAL,
    "docs/sweeps.md": GOAL,
    "docs/troubleshooting.md": GOAL,
    "docs/tutorial.md": GOAL,
    "docs/vendor-files.md": GOAL,
    "docs/deploy.md": GOAL,
    "docs/deploy/rounding.md": GOAL,
    "docs/estimates.md": GOAL,
    "docs/estimates/derivation.md": GOAL,
    "docs/workbench.md": GOAL,
}
"""Page -> the most words of a sentence."""

OBSCURE = {
    r"\bthat is none\b": "say what it is not: an unknown uid, no number",
    r"\bnobody (says|told|asks)\b": "say what is missing: no chip is given",
    r"\bwhat would is\b": "write the verb a second time",
    r"\bthe way to go\b": "say that the error names what to do",
    r"\b(is|are) said with\b": "say what the message has",
    r"\bworks? off\b": "runs",
    r"\bhears? the same\b": "gets the same",
}
"""Words that had to be read three times -> what to write instead."""


@pytest.mark.parametrize("name", LIMITS)
def test_sentences_are_short(name: str) -> None:
    long = [each for each in sentences(REPOSITORY / name) if each.words > LIMITS[name]]
    assert not long, "\n".join(f"{name}:{one.line} ({one.words}) {one.text}" for one in long)


@pytest.mark.parametrize("name", LIMITS)
def test_words_are_plain(name: str) -> None:
    found = [
        f"{name}:{one.line}: {one.text} ({advice})"
        for one in sentences(REPOSITORY / name)
        for pattern, advice in OBSCURE.items()
        if re.search(pattern, one.text, re.IGNORECASE)
    ]
    assert not found, "\n".join(found)


def test_what_a_sentence_is(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# No heading\n\nOne, two `three four` [five six](a/very/long.md#link). Seven eight:\n"
        "nine ten.\n\n```sh\nnot this\n```\n\n<!-- nor this -->\n\n- eleven\n  twelve\n\n"
        "| cell one | cell two |\n|---|---|\n| 3.5 MB | e.g. four |\n"
    )
    found = list(sentences(page))
    assert found[0] == Sentence(3, "One, two code five six.")
    assert [one.text for one in found[1:]] == [
        "Seven eight:",
        "nine ten.",
        "eleven twelve",
        "cell one",
        "cell two",
        "3.5 MB",
        "e.g. four",
    ]
    assert [one.words for one in found[:3]] == [5, 2, 2]
    assert found[3].line == 12
