"""Names and texts of a user in generated code."""

from __future__ import annotations

import re
import unicodedata

_WORDS = 40

# folders beside the program on a board
_TAKEN = frozenset({"data", "model"})


def identifier(name: str, default: str) -> str:
    """A name of ASCII letters, digits and ``_`` that begins with a letter: for files and targets.

    >>> identifier("my model-v2.onnx", "model")
    'my_model_v2_onnx'
    """
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    words = re.sub(r"[^A-Za-z0-9]+", "_", plain).strip("_")[:_WORDS].rstrip("_")
    if not words:
        return default
    return words if words[0].isalpha() else f"{default}_{words}"


def program_name(name: str) -> str:
    """The :func:`identifier` of a model that a program may have on a board.

    >>> program_name("data")
    'model_data'
    """
    plain = identifier(name, "model")
    return f"model_{plain}" if plain in _TAKEN else plain


def c_string(text: str) -> str:
    """A C string literal of UTF-8 bytes; whatever is not plain ASCII becomes an octal escape.

    >>> c_string('a"b')
    '"a\\\\042b"'
    """
    safe = set(b" !#$%&'()*+,-./:;<=>@[]^_`{|}~") | set(range(48, 58)) | set(range(65, 91))
    safe |= set(range(97, 123))
    data = text.encode("utf-8", "replace")
    return '"' + "".join(chr(b) if b in safe else f"\\{b:03o}" for b in data) + '"'


def c_number(value: float) -> str:
    """A double of C: the shortest text of the same value."""
    return repr(float(value))


def plain_line(text: str) -> str:
    """Text that fits a comment or a line of a README: no control characters, no line breaks."""
    return "".join(c if c.isprintable() else "?" for c in text)[:300]
