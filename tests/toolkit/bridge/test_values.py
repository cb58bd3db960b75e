"""What goes over the bridge: every value comes out as it went in; nothing else comes in."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.toolkit.bridge.values import Arrays, ClassInFile, Unpackable, pack, unpack


def there_and_back(value: Any, folder: Path) -> Any:
    near, far = Arrays(str(folder), "near"), Arrays(str(folder), "far")
    found = unpack(json.loads(json.dumps(pack(value, near), allow_nan=False)), far)
    assert list(folder.glob("*.npy")) == []
    return found


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text() | st.integers() | st.just("$"), inner, max_size=4)
    ),
    max_leaves=20,
)


@settings(max_examples=30)
@given(value=PLAIN)
def test_plain_values(value: Any) -> None:
    found = unpack(json.loads(json.dumps(pack(value, Arrays(".", "x")))), Arrays(".", "y"))
    assert found == value
    assert type(found) is type(value)


ARRAYS: list[np.ndarray] = [
    np.arange(24, dtype=np.uint8).reshape(1, 2, 3, 4),
    np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)),
    np.arange(10, dtype=np.int64)[::3],
    np.zeros((0, 3), np.float16),
    np.array(2.5),
    np.array([True, False]),
    np.arange(3, dtype=">i4"),
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype}{array.shape}")
def test_arrays(array: np.ndarray, tmp_path: Path) -> None:
    (found, same) = there_and_back([array, array], tmp_path)
    for each in (found, same):
        assert each.dtype == array.dtype
        np.testing.assert_array_equal(each, array)
        each.flat[:1] = 0  # it may be changed, as the toolkit does with pictures


@pytest.mark.parametrize("array", [ARRAYS[0], ARRAYS[1].copy(), ARRAYS[4], ARRAYS[5]], ids=str)
def test_arrays_without_numpy_on_the_other_side(
    array: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contiguous = array.copy(order="C")
    packed = pack(contiguous, Arrays(str(tmp_path), "near"))
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "numpy", None)
        view = unpack(packed, Arrays(str(tmp_path), "far"))
        assert isinstance(view, memoryview)
        assert view.tolist() == array.tolist()
        again = pack(view, Arrays(str(tmp_path), "far"))
    found = unpack(again, Arrays(str(tmp_path), "near"))
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, array)


def test_what_json_and_numpy_have_beyond(tmp_path: Path) -> None:
    assert there_and_back(Path("/a/b"), tmp_path) == "/a/b"
    assert there_and_back(np.float32(0.5), tmp_path) == 0.5
    assert there_and_back(np.int64(7), tmp_path) == 7
    assert there_and_back(-math.inf, tmp_path) == -math.inf
    assert math.isnan(there_and_back(math.nan, tmp_path))


def test_a_class_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "my_operator.py"
    path.write_text("class cstSoftmax:\n    op_type = 'cstSoftmax'\n")
    found = there_and_back(ClassInFile(str(path), "cstSoftmax"), tmp_path)
    assert found.op_type == "cstSoftmax"


def header(text: str, data: bytes = b"") -> bytes:
    body = text.encode("latin-1")
    return b"\x93NUMPY\x01\x00" + len(body).to_bytes(2, "little") + body + data


HOSTILE = {
    "no array": b"abc",
    "pickle": header("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}"),
    "fields": header("{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (1,)}", bytes(4)),
    "too short": header("{'descr': '<f4', 'fortran_order': False, 'shape': (9,)}", bytes(4)),
    "huge": header("{'descr': '<f4', 'fortran_order': False, 'shape': (1 << 60,)}"),
    "huge product": header(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({1 << 40}, 9)}}"),
    "negative": header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}"),
    "code": header("__import__('os')"),
    "deep": header("(" * 5000),
    "no key": header("{'descr': '<f4'}"),
    "another version": b"\x93NUMPY\x09\x00",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_file_that_is_no_plain_array_is_refused(kind: str, tmp_path: Path) -> None:
    (tmp_path / "far1.npy").write_bytes(HOSTILE[kind])
    with pytest.raises(Unpackable):
        Arrays(str(tmp_path), "near").load("far1.npy")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "message",
    [
        {"$": "array", "file": "../x.npy"},
        {"$": "array", "file": ".hidden.npy"},
        {"$": "array", "file": 7},
        {"$": "array"},
        {"$": "dict", "items": [[1]]},
        {"$": "tuple", "items": 3},
        {"$": "float", "text": "abc"},
        {"$": "bytes", "base64": "é"},
        {"$": "object"},
    ],
)
def test_a_damaged_value_is_refused(message: Any, tmp_path: Path) -> None:
    with pytest.raises(Unpackable):
        unpack(message, Arrays(str(tmp_path), "near"))


def test_values_are_nested_at_most_40_deep() -> None:
    value: Any = 0
    for _ in range(40):
        value = [value]
    arrays = Arrays(".", "near")
    assert unpack(pack(value, arrays), arrays) == value
    for way in (pack, unpack):
        with pytest.raises(Unpackable, match="too deep"):
            way([value], arrays)


def test_circles_and_strangers_are_refused() -> None:
    circle: list[Any] = []
    circle.append(circle)
    for value in (circle, {1, 2}, object(), [lambda: None]):
        with pytest.raises(Unpackable):
            pack(value, Arrays(".", "near"))
