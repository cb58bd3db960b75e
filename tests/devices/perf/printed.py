"""Performance reports of every dialect, set in the columns of the runtimes.

The figures of the first two are those that the manuals print: [RKNN-T1 1.3.2, 3.5 and 3.6.9] and
[RKNN-T2 1.1.0, 3.5.9].
"""

from __future__ import annotations

from pathlib import Path

_KINDS = {
    "t": "tensor.transpose_3",
    "2": "convolution.relu.pooling.layer2_2",
    "3": "convolution.relu.pooling.layer2_3",
    "f": "fullyconnected.relu.layer_3",
    "p": "pooling.layer2_1",
    "s": "softmaxlayer2.layer_1",
}
MOBILENET = (
    "0:t:72 44:2:363 59:2:201 45:2:185 60:2:243 46:2:98 61:2:149 47:2:104 62:2:120 48:2:72 63:2:101"
    " 49:2:92 64:2:99 50:2:110 65:2:107 51:2:212 66:2:107 52:2:212 67:2:107 53:2:212 68:2:107"
    " 54:2:212 69:2:107 55:2:212 70:2:107 56:2:174 71:2:220 57:2:353 28:p:36 58:f:110 30:s:90"
)


def layers_of(short: str) -> list[tuple[int, str, int]]:
    """Number, name and microseconds of each layer."""
    parts = (entry.split(":") for entry in short.split())
    return [(int(number), _KINDS[kind], int(time)) for number, kind, time in parts]


def simulator(short: str, total: int, rate: str) -> str:
    """The report of generation 1's simulator, with the line ends of old boards."""
    rule = "=" * 72
    rows = [f"{number:<12}{name:<45}{time}" for number, name, time in layers_of(short)]
    head = [rule, f"{'Performance':^72}", rule, f"{'Layer ID':<12}{'Name':<45}Time(us)"]
    tail = [f"Total Time(us): {total}", f"FPS(800MHz): {rate}", rule, ""]
    return "\r\n".join([*head, *rows, *tail])


GENERATION_1 = """\
========================================================================
                               Performance
        #### The performance result is just for debugging, ####
        #### may worse than actual performance!            ####
========================================================================
Layer ID    Name                                         Operator            Uid       Time(us)
0           net/first/Relu6_1_RKNN_mark_perm_60_0        TENSOR_TRANS        60        361
2           a/name/that/is/longer/than/its/column/ha     CONVOLUTION         1         920
            s/room/Relu6_1_2
3           net/second_3_2                               CONVOLUTION         3         896
                                                         ADD
                                                         LEAKY_RELU
4           net/soft                                     SOFTMAX                       17.5
            max_5_2
Total Time(us): 36700
FPS: 27.25
========================================================================
OP                  Call Number    Total Time(us)    Time Ratio(%)
CONVOLUTION         27             21000             57.22
TENSOR_TRANS        1              361               0.98
"""

_DEPTHWISE = [
    f"Conv2d_{block}_{part}" for block in range(1, 14) for part in ("depthwise", "pointwise")
]
_FIRST_TIMES = (
    14, 316, 329, 510, 324, 192, 233, 227, 143, 132, 142, 193, 71, 99, 79, 171, 78, 196, 78, 195,
    79, 170, 78, 170, 62, 232, 169, 494, 182, 206, 335, 99, 40,
)  # fmt: skip
_FIRST_NAMES = [
    "InputOperator:input",
    *(f"Conv:FAF_MobilenetV1/MobilenetV1/{part}/Relu6" for part in ("Conv2d_0", *_DEPTHWISE)),
    "Conv:MobilenetV1/Logits/AvgPool_1a/AvgPool",
    "Conv:MobilenetV1/Logits/Conv2d_1c_1x1/BiasAdd",
    "Softmax:MobilenetV1/Predictions/Reshape_1",
    "Reshape:MobilenetV1/Logits/SpatialSqueeze",
    "OutputOperator:MobilenetV1/Predictions/Reshape_1",
]


def _first_layer(number: int, name: str, time: int) -> tuple[int, str, str, str, int]:
    op = "ConvClip" if name.endswith("Relu6") else name.partition(":")[0]
    return number, name, op, "NPU" if name.startswith("Conv") else "CPU", time


FIRST_LAYERS = list(map(_first_layer, range(33), _FIRST_NAMES, _FIRST_TIMES))
FIRST = "\n".join(
    [
        "=" * 70,
        f"{'Performance':^70}",
        "#### The performance result is just for debugging, ####",
        "=" * 70,
        f"{'Layer ID':<10}{'Name':<66}{'Operator':<16}{'Target':<8}Time(us)",
        *(f"{n:<10}{name:<66}{op:<16}{on:<8}{time}" for n, name, op, on, time in FIRST_LAYERS),
        f"Total Time(us): {sum(_FIRST_TIMES)}",
        "=" * 70,
    ]
)

_HERE = Path(__file__).parent / "reports"
TO_1_5 = (_HERE / "to_1_5.txt").read_text()
"""Row 3 has a shape that is too long for its column, as the runtime writes it."""
ONE_CORE_1_4 = (_HERE / "one_core_1_4.txt").read_text()
FROM_1_6 = (_HERE / "from_1_6.txt").read_text()
TWO_CORES = (_HERE / "two_cores.txt").read_text()
ONE_CORE = (_HERE / "one_core.txt").read_text()
PLAIN_2 = """\
CPU Current Frequency List:
    - 1608000
NPU Current Frequency List:
    - 500000000
====================================================
                     Performance
====================================================
Total Time(us): 17219
FPS: 58.08
====================================================
"""
PLAIN_1 = """\
========================================================================
                               Performance
========================================================================
Average inference Time(us): 5438.98
FPS: 183.86
========================================================================
"""
