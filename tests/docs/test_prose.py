"""Every page is in short sentences, of plain words.

The README, the pages of docs and those beside them have at most 20 words a sentence. A new page is
held to it without being listed anywhere.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.docs.prose import Sentence, sentences

MOST_WORDS = 20
PAGES = [
    *("README.md", "CONTRIBUTING.md", "SECURITY.md", "compat/README.md"),
    *sorted(str(path.relative_to(REPOSITORY)) for path in (REPOSITORY / "docs").rglob("*.md")),
]
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


@pytest.mark.parametrize("name", PAGES)
def test_sentences_are_short(name: str) -> None:
    long = [each for each in sentences(REPOSITORY / name) if each.words > MOST_WORDS]
    assert not long, "\n".join(f"{name}:{one.line} ({one.words}) {one.text}" for one in long)


@pytest.mark.parametrize("name", PAGES)
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
