"""The order in which parts of a Split are placed, as rknn-toolkit2 2.3.2 and libstdc++ have it."""

from __future__ import annotations

import onnx
import pytest

from engine.cost.memory import plan_memory
from engine.cost.memory.plan import unstable_order
from tests.cost.asked.maker import Maker
from tests.cost.support import laid_out, npu_of, read_model

KEYS = "13130112310221113301213210303122210112033103222132022012122111120201100003311333"
SORTED = """
10 71 18 42 70 38 69 50 53 25 34 27 72 4 64 66 35 47 36 33 0 41 68 54 56 59 60 61 62 67 2 13 14 15
9 76 75 19 21 6 5 24 29 7 58 57 63 55 65 11 31 12 51 49 46 45 44 20 52 37 23 30 32 40 79 78 73 74
77 48 43 39 28 26 22 17 16 8 3 1
"""


def test_equals_are_in_the_order_of_std_sort() -> None:
    """80 keys and their places, of a program that g++ made (``std::sort`` by the key alone)."""
    assert unstable_order([(int(each),) for each in KEYS]) == [int(each) for each in SORTED.split()]


def test_so_few_stay_in_order() -> None:
    assert unstable_order([(each % 2,) for each in range(16)]) == [
        *range(0, 16, 2),
        *range(1, 16, 2),
    ]


def test_many_of_few_keys_end() -> None:
    """What libstdc++ would sort by a heap is in order, too."""
    keys = [(min(each, 4_000 - each),) for each in range(4_000)]
    assert [keys[at] for at in unstable_order(keys)] == sorted(keys)


def halves(blocks: int, name: str) -> onnx.ModelProto:
    """One half of a map is worked on and joined with the other, some times."""
    m = Maker((1, 3, 64, 64), opset=17)
    last = m.add("Relu", m.conv("x", 3, 32, 3, 2))
    for block in range(blocks):
        one, two = m.split(last, count=2, axis=1)
        two = m.add("Relu", m.conv(two, 16, 16, 1), name=f"{name}{block}" if name else "")
        last = m.add("Relu", m.conv(m.add("Concat", one, two, axis=1), 32, 32, 3))
    return m.model(m.conv(last, 32, 8, 1))


# for each Split whether its second part has the lower address (asked on 2026-11-26)
@pytest.mark.parametrize(
    ("chip", "blocks", "name", "second"),
    [
        ("rk3566", 2, "", "00"),
        ("rk3566", 3, "", "111"),
        ("rk3566", 4, "", "1100"),
        ("rk3576", 4, "", "1110"),
        ("rk3566", 10, "", "1111000100"),
        ("rk3588", 10, "", "1111010000"),
        ("rk3566", 10, "activation", "0010010000"),
        ("rk3588", 10, "activation", "1001111001"),
        ("rk3566", 16, "", "1100111101101001"),
        ("rk3576", 16, "", "1101101111110100"),
    ],
)
def test_parts_of_many_splits(chip: str, blocks: int, name: str, second: str) -> None:
    lowered = laid_out(read_model(halves(blocks, name)), chip, "float16")
    starts = {span.tensor: span.start for span in plan_memory(lowered, npu_of(chip)).spans}
    splits = [layer.outputs for layer in lowered.layers if layer.kind == "Split"]
    assert "".join("01"[starts[a] > starts[b]] for a, b in splits) == second
