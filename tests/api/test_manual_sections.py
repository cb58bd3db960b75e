"""The manuals' samples section by section, over files of the names that they have there.

Every section of generation 1's 3.6 and of the API reference V2.3.0's chapter 2 is named by a test
of this folder; the last test here holds that list.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from engine.api import RKNN
from tests.api.test_manuals import run
from tests.frontends.caffe import nets as caffe
from tests.frontends.darknet import networks as darknet
from tests.frontends.mxnet import networks as mxnet
from tests.frontends.tflite import op_cases
from tests.frontends.tflite.tflite_models import write_case
from tests.graph.models import finish, nodes_of, tensor

pytestmark = pytest.mark.usefixtures("place", "rknn_api")


@pytest.fixture
def models(place: Path) -> None:
    """Small nets under the names of the samples."""
    text = caffe.inputs(data=(1, 3, 16, 16)) + caffe.layer(
        "Convolution", "data", "out", "convolution_param { num_output: 4 kernel_size: 3 }", "conv"
    )
    blobs = {"conv": [caffe.floats(1, 4, 3, 3, 3), caffe.floats(2, 4)]}
    (place / "mobilenet_v2.prototxt").write_text(text)
    (place / "mobilenet_v2.caffemodel").write_bytes(caffe.caffemodel(blobs))
    cfg = "[convolutional]\nfilters=4\nsize=3\nstride=1\npad=1\nactivation=leaky\n"
    (place / "yolov3-tiny.cfg").write_text(darknet.head(3, 16, 16) + cfg)
    floats = caffe.floats(3, 4 + 4 * 3 * 9).tobytes()
    (place / "yolov3.weights").write_bytes(darknet.HEADER + floats)
    case = next(case for case in op_cases.CASES if case.op == "RELU")
    (place / "mobilenet_v1.tflite").write_bytes(write_case(case))
    net = mxnet.Network()
    data = net.variable("data")
    weight, bias = net.variable("w"), net.variable("b")
    out = net.add("Convolution", "conv", [data, weight, bias], kernel=(3, 3), num_filter=4)
    (place / "resnext50_32x4d-symbol.json").write_text(net.text(out))
    arrays = {"arg:w": caffe.floats(4, 4, 3, 3, 3), "arg:b": caffe.floats(5, 4)}
    (place / "resnext50_32x4d-4ecf62e2.params").write_bytes(mxnet.params_bytes(arrays))


def at(generation: int, snippet: str, **names: Any) -> dict[str, Any]:
    """Run a sample with an ``rknn`` of a generation."""
    return run(snippet, rknn=RKNN(generation=generation), **names)


@pytest.mark.usefixtures("models")
def test_loading_of_generation_1() -> None:
    """[RKNN-T1 1.3.2, 3.6.2.1, 3.6.2.3 to 3.6.2.5, 3.6.2.7]."""
    for sample in (
        "load_caffe('./mobilenet_v2.prototxt', 'caffe', './mobilenet_v2.caffemodel')",
        "load_tflite(model = './mobilenet_v1.tflite')",
        "load_onnx(model = './arcface.onnx')",
        "load_darknet(model = './yolov3-tiny.cfg', weight='./yolov3.weights')",
        "load_mxnet('resnext50_32x4d-symbol.json', 'resnext50_32x4d-4ecf62e2.params', [[3,16,16]])",
    ):
        assert at(1, f"ret = rknn.{sample}")["ret"] == 0, sample


@pytest.mark.usefixtures("models")
def test_loading_of_generation_2() -> None:
    """[RKNN-T2 2.3.0, 2.1, 2.2, 2.3.1, 2.3.3 to 2.3.5]."""
    names = at(
        2,
        """
        # model config
        assert rknn.config(mean_values=[[103.94, 116.78, 123.68]],
                    std_values=[[58.82, 58.82, 58.82]],
                    quant_img_RGB2BGR=True,
                    target_platform='rk3566') is None
        # 从当前路径加载mobilenet_v2模型
        ret = rknn.load_caffe(model='./mobilenet_v2.prototxt',
                              blobs='./mobilenet_v2.caffemodel')
        assert ret == 0
        # 从当前目录加载mobilenet_v1模型
        ret = rknn.load_tflite(model='./mobilenet_v1.tflite')
        assert ret == 0
        # 从当前目录加载arcface模型
        ret = rknn.load_onnx(model='./arcface.onnx')
        assert ret == 0
        # 从当前目录加载yolov3-tiny模型
        ret = rknn.load_darknet(model='./yolov3-tiny.cfg',
                                weight='./yolov3.weights')
        assert ret == 0
        # 构建RKNN模型
        ret = rknn.build(do_quantization=True, dataset='./dataset.txt')
        assert rknn.release() is None
        """,
    )
    assert names["ret"] == 0


@pytest.mark.long
@pytest.mark.tensorflow
@pytest.mark.parametrize("generation", [1, 2])
def test_loading_a_frozen_graph(place: Path, generation: int) -> None:
    """[RKNN-T1 1.3.2, 3.6.2.2; RKNN-T2 2.3.0, 2.3.2], the sizes without a batch as they stand."""
    from scripts.vendor_examples.stand_ins import tensorflow_graph

    first = {
        1: "FeatureExtractor/MobilenetV1/MobilenetV1/Conv2d_0/BatchNorm/batchnorm/mul_1",
        2: "Preprocessor/sub",
    }[generation]
    make = tensorflow_graph(
        first, [1, 300, 300, 3], {"concat": [1, 20, 1, 4], "concat_1": [1, 20, 91]}
    )
    make(place / "ssd_mobilenet_v1_coco_2017_11_17.pb")
    names = at(
        generation,
        """
        ret = rknn.load_tensorflow(tf_pb='./ssd_mobilenet_v1_coco_2017_11_17.pb',
                                   inputs=[first],
                                   outputs=['concat', 'concat_1'],
                                   input_size_list=[[300, 300, 3]])
        """,
        first=first,
    )
    assert names["ret"] == 0


@pytest.mark.long
@pytest.mark.torch
def test_loading_torchscript(place: Path) -> None:
    """[RKNN-T1 1.3.2, 3.6.2.6; RKNN-T2 2.3.0, 2.3.6]."""
    from scripts.vendor_examples.stand_ins import torch_net

    torch_net([1, 3, 224, 224], 10)(place / "resnet18.pt")
    one = at(1, "ret = rknn.load_pytorch(model='./resnet18.pt', input_size_list=[[3,224,224]])")
    two = at(2, "ret = rknn.load_pytorch(model='./resnet18.pt', input_size_list=[[1,3,224,224]])")
    assert (one["ret"], two["ret"]) == (0, 0)


def test_figures_without_a_board(dog: np.ndarray, capsys: pytest.CaptureFixture[str]) -> None:
    """[RKNN-T1 1.3.2, 3.6.9 to 3.6.11; RKNN-T2 2.3.0, 2.9 to 2.11]: estimated, in their forms."""
    build = """
        assert rknn.load_onnx('./arcface.onnx') == 0
        assert rknn.build(do_quantization=True, dataset='./dataset.txt') == 0
        assert rknn.init_runtime() == 0
        """
    names = at(
        1,
        build
        + """
        perf_results = rknn.eval_perf(inputs=[image], is_print=True)
        memory_detail = rknn.eval_memory()
        sdk_version = rknn.get_sdk_version()
        """,
        image=dog,
    )
    assert set(names["perf_results"]) >= {"layers", "total_time"}
    parts = {"maximum_allocation", "total_allocation"}
    detail = names["memory_detail"]
    assert {name: set(part) for name, part in detail.items()} == dict.fromkeys(
        ("system_memory", "npu_memory", "total_memory"), parts
    )
    assert names["sdk_version"] is None
    assert "This needs a board" in capsys.readouterr().err
    names = run(
        """
        rknn.config(target_platform='rk3566')
        """
        + build
        + """
        perf_detail = rknn.eval_perf()
        memory_detail = rknn.eval_memory()
        """,
        rknn=RKNN(generation=2),
    )
    assert isinstance(names["perf_detail"], str)
    detail = names["memory_detail"]
    assert set(detail) == {"weight_memory", "internal_memory", "other_memory", "total_memory"}
    assert detail["total_memory"] == sum(v for k, v in detail.items() if k != "total_memory")
    told = capsys.readouterr()
    assert "Total Memory:" in told.err
    assert told.out == ""


def test_hybrid_quantization_of_generation_1(place: Path) -> None:
    """[RKNN-T1 1.3.2, 3.6.12, 3.6.13]; sample, and its files, as in 3.6.12.1 and 3.6.12.2."""
    (place / "ssd_mobilenet_v2.onnx").write_bytes((place / "arcface.onnx").read_bytes())
    names = at(
        1,
        """
        assert rknn.load_onnx('./ssd_mobilenet_v2.onnx') == 0
        # Call hybrid_quantization_step1 to generate quantization config
        ret = rknn.hybrid_quantization_step1(dataset='./dataset.txt')
        assert ret == 0
        # Call hybrid_quantization_step2 to generate hybrid quantized RKNN model
        ret = rknn.hybrid_quantization_step2(
            model_input='./ssd_mobilenet_v2.json',
            data_input='./ssd_mobilenet_v2.data',
            model_quantization_cfg='./ssd_mobilenet_v2.quantization.cfg',
            dataset='./dataset.txt')
        assert ret == 0
        rknn.accuracy_analysis(inputs='./one.txt', output_dir='./snapshot', calc_qnt_error=True)
        """,
    )
    assert names["ret"] == 0
    text = Path("ssd_mobilenet_v2.quantization.cfg").read_text()
    assert text.startswith("%YAML 1.2\n---\n# add layer name and corresponding quantized_dtype")
    assert Path("snapshot").is_dir()


def test_hybrid_quantization_of_generation_2(place: Path) -> None:
    """[RKNN-T2 2.3.0, 2.12.1, 2.12.2]."""
    (place / "ssd_mobilenet_v2.onnx").write_bytes((place / "arcface.onnx").read_bytes())
    names = at(
        2,
        """
        assert rknn.load_onnx('./ssd_mobilenet_v2.onnx') == 0
        # 调用hybrid_quantization_step1 产生量化配置文件
        ret = rknn.hybrid_quantization_step1(dataset='./dataset.txt')
        assert ret == 0
        # Call hybrid_quantization_step2 to generate hybrid quantized RKNN model
        ret = rknn.hybrid_quantization_step2(
                        model_input='./ssd_mobilenet_v2.model',
                        data_input='./ssd_mobilenet_v2.data',
                        model_quantization_cfg='./ssd_mobilenet_v2.quantization.cfg')
        """,
    )
    assert names["ret"] == 0


CUSTOM = """
import numpy as np
from engine.api.custom_op import get_node_attr

class cstSoftmax:
    op_type = 'cstSoftmax'
    def shape_infer(self, node, in_shapes, in_dtypes):
        out_shapes = in_shapes.copy()
        out_dtypes = in_dtypes.copy()
        return out_shapes, out_dtypes
    def compute(self, node, inputs):
        x = inputs[0]
        axis = get_node_attr(node, 'axis')
        x_max = np.max(x, axis=axis, keepdims=True)
        tmp = np.exp(x - x_max)
        s = np.sum(tmp, axis=axis, keepdims=True)
        outputs = [tmp / s]
        return outputs

ret = rknn.reg_custom_op(cstSoftmax)
"""


def test_custom_operators(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """[RKNN-T2 2.3.0, 2.16; RKNN-T1 1.3.2, 3.6.16]: the operator of the sample is used."""
    nodes, x, y = nodes_of("y = cstSoftmax <axis = 1> (x)"), tensor("x", 1, 5), tensor("y", 1, 5)
    onnx.save(finish(nodes, [x], [y], opset=17), "custom.onnx")
    names = at(2, CUSTOM)
    rknn = names["rknn"]
    assert names["ret"] == 0
    assert rknn.load_onnx("custom.onnx") == 0
    assert rknn.build(do_quantization=False) == 0
    assert rknn.init_runtime() == 0
    outputs = rknn.inference([np.arange(5, dtype=np.float32)[None]])
    expected = np.exp(np.arange(5)) / np.exp(np.arange(5)).sum()
    np.testing.assert_allclose(outputs[0][0], expected, rtol=1e-5)
    missing = at(1, "ret = rknn.register_op('./resize_area/ResizeArea.rknnop')")
    assert missing["ret"] is None
    assert "ResizeArea.rknnop" in capsys.readouterr().err


def test_runnable_platforms(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """[RKNN-T1 1.3.2, 3.6.17], as it is printed there."""
    names = at(
        1,
        """
        rknn.config(target_platform=['rk1808', 'rk3399pro'])
        assert rknn.load_onnx('./arcface.onnx') == 0
        assert rknn.build(do_quantization=False) == 0
        assert rknn.export_rknn('mobilenet_v1.rknn') == 0
        found = rknn.list_support_target_platform(rknn_model='mobilenet_v1.rknn')
        """,
    )
    both = ["RK1808", "RK3399PRO"]
    assert names["found"]["support_target_platform"] == both
    told = capsys.readouterr().err
    assert "Target platforms filled in RKNN model:         [" in told
    assert f"Target platforms supported by this RKNN model: {both}" in told


def test_files_for_boards_answer_with_a_status(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """[RKNN-T1 1.3.2, 3.6.14; RKNN-T2 2.3.0, 2.15, 2.17]: 0 and a file, or -1 and why not."""
    (place / "mobilenet_v2").mkdir()
    (place / "mobilenet_v2" / "dog_224x224.jpg").write_bytes(
        (place / "dog_224x224.jpg").read_bytes()
    )
    for sample, made in (
        ("export_rknn_sync_model('./none.rknn', sync_uids=[1], output_model='s.rknn')", "s.rknn"),
        ("export_encrypted_rknn_model('test.rknn')", "test.crypt.rknn"),
        ("codegen('./rknn_app_demo', ['./mobilenet_v2/dog_224x224.jpg'], True)", "rknn_app_demo"),
    ):
        method = sample.partition("(")[0]
        assert at(2, f"ret = rknn.{sample}")["ret"] == -1  # nothing is built, no such file
        told = capsys.readouterr()
        assert told.err.startswith(f"E {method}: ")
        assert told.out == ""
        assert not Path(made).exists()


SECTIONS_1 = [*(f"3.6.2.{n}" for n in range(1, 8)), *(f"3.6.{n}" for n in (1, *range(3, 18)))]
SECTIONS_2 = [
    *(f"2.{n}" for n in (1, 2, *range(4, 12), *range(13, 18))),
    *(f"2.3.{n}" for n in range(1, 7)),
    "2.12.1",
    "2.12.2",
]


def test_every_section_is_named_by_a_test(repository: Path) -> None:
    found: dict[str, set[str]] = {"RKNN-T1 1.3.2": set(), "RKNN-T2 2.3.0": set()}
    for path in (repository / "tests/api").glob("test_*.py"):
        for manual, sections in re.findall(
            r"(RKNN-T[12] [0-9.]+), ([0-9., toand]+)", path.read_text()
        ):
            for part in re.split(r",| and ", sections):
                ends = re.findall(r"[0-9]+(?:\.[0-9]+)+", part)
                if len(ends) == 2:
                    stem, first = ends[0].rsplit(".", 1)
                    last = int(ends[1].rsplit(".", 1)[1])
                    ends = [f"{stem}.{n}" for n in range(int(first), last + 1)]
                found.setdefault(manual, set()).update(end.rstrip(".") for end in ends)
    assert not set(SECTIONS_1) - found["RKNN-T1 1.3.2"]
    assert not set(SECTIONS_2) - found["RKNN-T2 2.3.0"]
