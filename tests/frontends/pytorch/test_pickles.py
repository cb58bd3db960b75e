"""Pickles are read without being executed, whatever they hold."""

from __future__ import annotations

import contextlib
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.frontends.pytorch.pickles import (
    Made,
    TensorRecord,
    Unreadable,
    all_tensors,
    read_values,
)
from tests.frontends.pytorch.archives import (
    FORMAT,
    STOP,
    module,
    name,
    net,
    number,
    row,
    table,
    tensor,
    text,
)
from tests.fuzz.mutate import mutant

plain = st.recursive(
    st.integers(-(2**31), 2**31 - 1) | st.text(max_size=20) | st.none() | st.booleans(),
    lambda inner: (
        st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text("abc", min_size=1, max_size=3), inner, max_size=3)
    ),
    max_leaves=20,
)


def written(value: object) -> bytes:
    if isinstance(value, bool):
        return b"\x88" if value else b"\x89"
    if isinstance(value, int):
        return number(value)
    if isinstance(value, str):
        return text(value)
    if isinstance(value, tuple):
        return row(*map(written, value))
    if isinstance(value, dict):
        return table(**{key: written(part) for key, part in value.items()})
    return b"N"


@given(plain)
def test_plain_values_come_back(value: object) -> None:
    assert read_values(FORMAT + written(value) + STOP) == value


def test_a_tensor_is_told_by_its_form() -> None:
    value = read_values(FORMAT + table(w=tensor((2, 3), "HalfStorage", "7")) + STOP)
    assert value == {"w": TensorRecord("7", "float16", (2, 3))}
    assert value["w"].bytes == 12


def test_a_call_stays_a_record() -> None:
    value = read_values(FORMAT + name("os", "system") + row(text("touch /tmp/x")) + b"R" + STOP)
    assert value == Made("os.system", ("touch /tmp/x",))


def test_tensors_of_a_module_have_paths() -> None:
    inner = module("__torch__", "Conv", weight=tensor((4,)))
    value = read_values(FORMAT + module("__torch__", "Net", conv=inner) + STOP)
    assert [path for path, _ in all_tensors(value)] == ["conv.weight"]


def test_a_value_that_holds_itself_ends() -> None:
    itself = b"}q\x00" + text("me") + b"h\x00s"
    assert list(all_tensors(read_values(FORMAT + itself + STOP))) == []


@pytest.mark.parametrize(
    "data",
    [b"", b"\x80\x02", b"no pickle", FORMAT + b"t.", FORMAT + b"R.", FORMAT + b"h\x05.",
     FORMAT + b"}(" + text("odd") + b"u."],
)  # fmt: skip
def test_what_is_no_pickle_is_said_so(data: bytes) -> None:
    with pytest.raises(Unreadable):
        read_values(data)


def test_mutants_are_read_or_refused() -> None:
    for number_of in range(2000):
        data = mutant(net()["data.pkl"], number_of)
        with contextlib.suppress(Unreadable):
            list(all_tensors(read_values(io.BytesIO(data))))
