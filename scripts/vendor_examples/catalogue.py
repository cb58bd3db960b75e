"""Every example of the vendor's public repositories, and what stands in for what it downloads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scripts.vendor_examples.stand_ins import (
    Maker,
    caffe_weights,
    copied,
    darknet_weights,
    keras_net,
    mxnet_net,
    onnx_net,
    pose_net,
    qdq_onnx,
    tensorflow_graph,
    tflite_net,
    torch_net,
)

REPOSITORIES: Mapping[str, tuple[str, Sequence[str]]] = {
    "toolkit2": (
        "airockchip/rknn-toolkit2",
        ("rknn-toolkit2/examples", "rknn-toolkit-lite2/examples", "autosparsity/examples"),
    ),
    "zoo": ("airockchip/rknn_model_zoo", ("examples", "py_utils", "datasets")),
    "toolkit1": ("rockchip-linux/rknn-toolkit", ("examples", "rknn-toolkit-lite/examples")),
}
"""Short name -> repository, and the folders that are taken."""


@dataclass(frozen=True)
class Example:
    """One script of the vendor's.

    Attributes:
        repository: its short name.
        script: path in the repository; it runs in its own folder.
        arguments: of its command line, as its README says.
        stand_ins: file that it downloads, relative to its folder -> what makes the stand-in.
        generation: the toolkit that it is for.
    """

    repository: str
    script: str
    arguments: tuple[str, ...] = ()
    stand_ins: Mapping[str, Maker] = field(default_factory=dict)
    generation: int = 2


def _two(script: str, *arguments: str, **files: Maker) -> Example:
    return Example("toolkit2", f"rknn-toolkit2/examples/{script}", arguments, _files(files))


def _one(script: str, *arguments: str, **files: Maker) -> Example:
    return Example("toolkit1", f"examples/{script}", arguments, _files(files), 1)


def _zoo(folder: str, model: str, maker: Maker, *, script: str = "convert.py") -> Example:
    """``python convert.py MODEL PLATFORM``, as the README of each example says."""
    up = "../" * (folder.split("/python/")[-1].count("/") + 2 if "/python/" in folder else 1)
    place = f"{up}model/{model}"
    inner = folder if "/python" in folder else f"{folder}/python"
    return Example("zoo", f"examples/{inner}/{script}", (place, "rk3588"), {place: maker})


def _files(files: Mapping[str, Maker]) -> dict[str, Maker]:
    return {name.replace("__", "/").replace("_DOT_", "."): maker for name, maker in files.items()}


_MOBILENET = {
    "../../caffe/mobilenet_v2/mobilenet_v2.caffemodel": caffe_weights(
        "mobilenet_v2_deploy.prototxt"
    )
}
_IMAGE = {"images": [1, 3, 640, 640]}
_YOLO5 = {"output0": [1, 255, 80, 80], "o1": [1, 255, 40, 40], "o2": [1, 255, 20, 20]}
_SSD_17 = {"concat": [1, 1917, 1, 4], "concat_1": [1, 1917, 91]}
_RESNET50V2 = onnx_net({"data": ["N", 3, 224, 224]}, {"resnetv24_dense0_fwd": ["N", 1000]})
_SHUFFLENET = onnx_net({"input": [1, 3, 224, 224]}, {"output": [1, 1000]}, name="torch-jit-export")
_SSD_V2 = tensorflow_graph(
    "FeatureExtractor/MobilenetV2/MobilenetV2/input",
    [1, 300, 300, 3],
    {"concat": [1, 1917, 1, 4], "concat_1": [1, 1917, 91]},
)
_INCEPTION_QAT = tensorflow_graph(
    "input", [1, 299, 299, 3], {"InceptionV3/Logits/SpatialSqueeze": [1, 1001]}, fake_quant=True
)
_DEEPLAB = tensorflow_graph("sub_7", [1, 513, 513, 3], {"ResizeBilinear_2": [1, 513, 513, 21]})


def _heads(first: int, *sizes: int, scores: int = 80, sums: bool = True) -> dict[str, list[int]]:
    """Heads of YOLOv6 and later as the model zoo exports them: boxes, scores, sum of scores."""
    outputs: dict[str, list[int]] = {}
    for size in sizes:
        outputs[f"box{size}"] = [1, first, size, size]
        outputs[f"score{size}"] = [1, scores, size, size]
        if sums:
            outputs[f"sum{size}"] = [1, 1, size, size]
    return outputs


def _caffe2(script: str) -> Example:
    return Example("toolkit2", f"rknn-toolkit2/examples/{script}", (), _MOBILENET)


_V8 = _heads(64, 80, 40, 20)

TOOLKIT2 = (
    Example(
        "toolkit2",
        "rknn-toolkit2/examples/caffe/mobilenet_v2/test.py",
        (),
        {"mobilenet_v2.caffemodel": caffe_weights("mobilenet_v2_deploy.prototxt")},
    ),
    Example(
        "toolkit2",
        "rknn-toolkit2/examples/caffe/vgg-ssd/test.py",
        (),
        {
            "VGG_VOC0712_SSD_300x300_iter_120000.caffemodel": caffe_weights(
                "deploy_rm_detection_output.prototxt"
            )
        },
    ),
    _two("darknet/yolov3_416x416/test.py", yolov3_DOT_weights=darknet_weights(62001757)),
    _two("functions/accuracy_analysis/test.py", **{"resnet50v2.onnx": _RESNET50V2}),
    _caffe2("functions/codegen/test.py"),
    _two("functions/custom_op/convert_custom_onnx_to_rknn/test.py"),
    _two("functions/custom_op/gen_custom_onnx_from_pytorch/register_onnx_symbolic/test.py"),
    _two("functions/custom_op/gen_custom_onnx_from_pytorch/register_pytorch_op/test.py"),
    _two(
        "functions/custom_op/non-onnx_standard/test.py",
        **{
            "yolox_s.onnx": onnx_net(
                _IMAGE,
                {"o0": [1, 85, 80, 80], "o1": [1, 85, 40, 40], "o2": [1, 85, 20, 20]},
                act="Sigmoid",
            )
        },
    ),
    _caffe2("functions/dynamic_shape/test.py"),
    _two("functions/hybrid_quant/step1.py", **{"ssd_mobilenet_v2.pb": _SSD_V2}),
    _two("functions/hybrid_quant/step2.py"),
    _two(
        "functions/model_pruning/test.py",
        **{"mobilenet.caffemodel": caffe_weights("mobilenet_deploy.prototxt")},
    ),
    _caffe2("functions/multi_batch/test.py"),
    _two("functions/multi_input/test.py"),
    _caffe2("functions/npu_device_test/test.py"),
    _two("functions/onnx_edit/test.py"),
    _two(
        "functions/quantize_algorithm_mmse/test.py",
        **{
            "mobilenet_v1_1.0_224_frozen.pb": tensorflow_graph(
                "input", [1, 224, 224, 3], {"MobilenetV1/Logits/SpatialSqueeze": [1, 1001]}
            )
        },
    ),
    _two("onnx/resnet50v2/test.py", **{"resnet50v2.onnx": _RESNET50V2}),
    _two("onnx/yolov5/test.py", **{"yolov5s_relu.onnx": onnx_net(_IMAGE, _YOLO5)}),
    _two("pytorch/resnet18/test.py", **{"resnet18.pt": torch_net([1, 3, 224, 224], 1000)}),
    _two(
        "pytorch/resnet18_qat/test.py",
        **{"resnet18_i8.pt": torch_net([1, 3, 224, 224], 1000, quantized=True)},
    ),
    _two("tensorflow/inception_v3_qat/test.py", **{"inception_v3_quant_frozen.pb": _INCEPTION_QAT}),
    _two(
        "tensorflow/ssd_mobilenet_v1/test.py",
        **{
            "ssd_mobilenet_v1_coco_2017_11_17.pb": tensorflow_graph(
                "Preprocessor/sub", [1, 300, 300, 3], _SSD_17
            )
        },
    ),
    _two("tflite/mobilenet_v1/test.py", **{"mobilenet_v1_1.0_224.tflite": tflite_net(224, 1001)}),
    _two(
        "tflite/mobilenet_v1_qat/test.py",
        **{"mobilenet_v1_1.0_224_quant.tflite": tflite_net(224, 1001, quantized=True)},
    ),
    Example("toolkit2", "rknn-toolkit-lite2/examples/dynamic_shape/test.py"),
    Example("toolkit2", "rknn-toolkit-lite2/examples/resnet18/test.py"),
)

_TOKENS = {"input_ids": [1, 20]}


def _zoo_onnx(
    folder: str,
    model: str,
    inputs: Mapping[str, Sequence[int | str]],
    outputs: Mapping[str, Sequence[int | str]],
    *integers: str,
) -> Example:
    return _zoo(folder, model, onnx_net(inputs, outputs, integers=integers))


ZOO = (
    _zoo_onnx("LPRNet", "lprnet.onnx", {"input": [1, 3, 24, 94]}, {"output": [1, 68, 18]}),
    _zoo_onnx(
        "PPOCR/PPOCR-Det", "ppocrv4_det.onnx", {"x": [1, 3, 480, 480]}, {"out": [1, 1, 480, 480]}
    ),
    _zoo_onnx(
        "PPOCR/PPOCR-Rec", "ppocrv4_rec.onnx", {"x": [1, 3, 48, 320]}, {"out": [1, 40, 6625]}
    ),
    _zoo_onnx(
        "RetinaFace",
        "RetinaFace_mobile320.onnx",
        {"input0": [1, 3, 320, 320]},
        {"output0": [1, 4200, 4], "592": [1, 4200, 2], "591": [1, 4200, 10]},
    ),
    _zoo_onnx(
        "clip/python/images",
        "clip_images.onnx",
        {"pixel_values": ["b", 3, "h", "w"]},
        {"image_embeds": ["b", 512]},
    ),
    _zoo_onnx(
        "clip/python/text",
        "clip_text.onnx",
        {"input_ids": ["b", "s"]},
        {"text_embeds": ["b", 512]},
        "input_ids",
    ),
    _zoo(
        "deeplabv3",
        "deeplab-v3-plus-mobilenet-v2.pb",
        tensorflow_graph("sub_7", [1, 513, 513, 3], {"logits/semantic/BiasAdd": [1, 65, 65, 21]}),
    ),
    _zoo_onnx(
        "lite_transformer",
        "lite-transformer-encoder-16.onnx",
        {"x": [1, 16, 256], "mask": [1, 16]},
        {"out": [1, 16, 256]},
    ),
    _zoo_onnx(
        "mms_tts",
        "mms_tts_eng_encoder_200.onnx",
        {"input_ids": [1, 200], "attention_mask": [1, 200]},
        {
            "log_duration": [1, 1, 200],
            "input_padding_mask": [1, 1, 200],
            "prior_means": [1, 200, 192],
            "prior_log_variances": [1, 200, 192],
        },
        "input_ids",
        "attention_mask",
    ),
    Example(
        "zoo",
        "examples/mobilenet/python/mobilenet.py",
        ("--target", "rk3588"),
        {
            "../model/mobilenetv2-12.onnx": onnx_net(
                {"input": ["b", 3, 224, 224]}, {"output": ["b", 1000]}
            )
        },
    ),
    _zoo_onnx(
        "mobilesam/python/decoder",
        "mobilesam_decoder.onnx",
        {
            "image_embeddings": [1, 256, 28, 28],
            "point_coords": [1, "n", 2],
            "point_labels": [1, "n"],
            "mask_input": [1, 1, 112, 112],
            "has_mask_input": [1],
        },
        {"iou_predictions": [1, 4], "low_res_masks": [1, 4, 112, 112]},
    ),
    _zoo_onnx(
        "mobilesam/python/encoder",
        "mobilesam_encoder_tiny.onnx",
        {"input": [1, 3, 448, 448]},
        {"output": [1, 256, 28, 28]},
    ),
    _zoo_onnx(
        "ppseg", "pp_liteseg_cityscapes.onnx", {"x": [1, 3, 512, 512]}, {"out": [1, 19, 128, 128]}
    ),
    _zoo_onnx("ppyoloe", "ppyoloe_s.onnx", {"image": [1, 3, 640, 640]}, _heads(68, 80, 40, 20)),
    Example(
        "zoo",
        "examples/resnet/python/resnet.py",
        ("../model/resnet50-v2-7.onnx", "rk3588"),
        {"../model/resnet50-v2-7.onnx": _RESNET50V2},
    ),
    _zoo_onnx(
        "wav2vec2", "wav2vec2_base_960h_20s.onnx", {"input": [1, 320000]}, {"output": [1, 999, 32]}
    ),
    _zoo_onnx(
        "whisper", "whisper_encoder_base_20s.onnx", {"x": [1, 80, 2000]}, {"out": [1, 1000, 512]}
    ),
    _zoo_onnx("yamnet", "yamnet_3s.onnx", {"waveform": [1, 48000]}, {"scores": [6, 521]}),
    _zoo_onnx("yolo11", "yolo11n.onnx", _IMAGE, _V8),
    _zoo_onnx(
        "yolo_world/python/clip_text",
        "clip_text.onnx",
        {"input_ids": ["b", "s"]},
        {"text_embeds": ["b", 512]},
        "input_ids",
    ),
    _zoo_onnx(
        "yolo_world/python/yolo_world",
        "yolo_world_v2s.onnx",
        {"images": ["b", 3, 640, 640], "texts": ["b", "n", 512]},
        _heads(4, 80, 40, 20, sums=False),
    ),
    _zoo_onnx("yolov10", "yolov10n.onnx", _IMAGE, _V8),
    _zoo_onnx("yolov5", "yolov5s_relu.onnx", _IMAGE, _YOLO5),
    _zoo_onnx(
        "yolov5_seg",
        "yolov5s-seg.onnx",
        _IMAGE,
        {
            **_YOLO5,
            "s0": [1, 96, 80, 80],
            "s1": [1, 96, 40, 40],
            "s2": [1, 96, 20, 20],
            "proto": [1, 32, 160, 160],
        },
    ),
    _zoo_onnx("yolov6", "yolov6n.onnx", _IMAGE, _heads(4, 80, 40, 20)),
    _zoo_onnx("yolov7", "yolov7-tiny.onnx", _IMAGE, _YOLO5),
    _zoo_onnx("yolov8", "yolov8n.onnx", _IMAGE, _V8),
    _zoo_onnx(
        "yolov8_obb",
        "yolov8n-obb.onnx",
        _IMAGE,
        {
            "o0": [1, 79, 80, 80],
            "o1": [1, 79, 40, 40],
            "o2": [1, 79, 20, 20],
            "angle": [1, 1, 8400],
        },
    ),
    _zoo("yolov8_pose", "yolov8n-pose.onnx", pose_net),
    _zoo_onnx(
        "yolov8_seg",
        "yolov8s-seg.onnx",
        _IMAGE,
        {**_V8, **{f"mask{n}": [1, 32, n, n] for n in (80, 40, 20)}, "proto": [1, 32, 160, 160]},
    ),
    _zoo_onnx(
        "yolox",
        "yolox_s.onnx",
        _IMAGE,
        {"o0": [1, 85, 80, 80], "o1": [1, 85, 40, 40], "o2": [1, 85, 20, 20]},
    ),
    _zoo_onnx(
        "zipformer",
        "encoder-epoch-99-avg-1.onnx",
        {"x": [1, 103, 80], "state": [2, 1, 32]},
        {"encoder_out": [1, 24, 512], "new_state": [2, 1, 32]},
    ),
)

_COMMON = "common_function_demos"
_RESNEXT, _FCN = mxnet_net(224, 1000, maps=False), mxnet_net(480, 21, maps=True)

TOOLKIT1 = (
    _one(
        "caffe/mobilenet_v2/test.py",
        **{"mobilenet_v2.caffemodel": caffe_weights("mobilenet_v2.prototxt")},
    ),
    _one(
        "caffe/vgg-ssd/test.py",
        **{
            "VGG_VOC0712_SSD_300x300_iter_120000.caffemodel": caffe_weights(
                "deploy_rm_detection_output.prototxt"
            )
        },
    ),
    _one(
        f"{_COMMON}/accuracy_analysis/hybrid_quantization_step1.py",
        **{"shufflenetv2_x1.onnx": _SHUFFLENET},
    ),
    _one(f"{_COMMON}/accuracy_analysis/hybrid_quantization_step2.py"),
    _one(
        f"{_COMMON}/accuracy_analysis/normal_quantization.py",
        **{"shufflenetv2_x1.onnx": _SHUFFLENET},
    ),
    _one(f"{_COMMON}/accuracy_analysis/run_hybrid_quantization_model.py"),
    _one(f"{_COMMON}/accuracy_analysis/run_normal_quantization_model.py"),
    _one(f"{_COMMON}/accuracy_analysis/run_onnx_model.py"),
    _one("tflite/mobilenet_v1/test.py", **{"mobilenet_v1.tflite": tflite_net(224, 1001)}),
    _one(f"{_COMMON}/batch_size/test.py"),
    _one(f"{_COMMON}/custom_op/rknn_custom_op_math/rknn_custom_op_math.py"),
    _one(f"{_COMMON}/custom_op/rknn_custom_op_resize/rknn_custom_op_resize_area.py"),
    _one(
        f"{_COMMON}/eval_mem/eval_mem.py", "../../tflite/mobilenet_v1/mobilenet_v1.rknn", "rv1126"
    ),
    _one(
        f"{_COMMON}/eval_perf/eval_perf.py", "../../tflite/mobilenet_v1/mobilenet_v1.rknn", "rv1126"
    ),
    _one(
        f"{_COMMON}/export_encrypt_rknn_model/export_encrypt_rknn_model.py",
        "../../tflite/mobilenet_v1/mobilenet_v1.rknn",
        "crypt.rknn",
        "1",
    ),
    _one(
        f"{_COMMON}/export_rknn_precompile_model/export_rknn_precompile_model.py",
        "../../tflite/mobilenet_v1/mobilenet_v1.rknn",
        "precompiled.rknn",
        "rv1126",
    ),
    _one(
        f"{_COMMON}/hybrid_quantization/mnasnet0_5/step1.py",
        **{"mnasnet0_5.pt": torch_net([1, 3, 224, 224], 1000)},
    ),
    _one(f"{_COMMON}/hybrid_quantization/mnasnet0_5/step2.py"),
    _one(f"{_COMMON}/hybrid_quantization/mnasnet0_5/step3.py"),
    _one(
        f"{_COMMON}/hybrid_quantization/ssd_mobilenet_v2/step1.py",
        **{"ssd_mobilenet_v2.pb": _SSD_V2},
    ),
    _one(f"{_COMMON}/hybrid_quantization/ssd_mobilenet_v2/step2.py"),
    _one(f"{_COMMON}/hybrid_quantization/ssd_mobilenet_v2/step3.py"),
    _one(
        f"{_COMMON}/load_quantized_model/onnx/test.py",
        **{
            "shufflenet-v2_quant.onnx": qdq_onnx({"input": [1, 3, 224, 224]}, {"output": [1, 1000]})
        },
    ),
    _one(
        f"{_COMMON}/load_quantized_model/pytorch/test.py",
        **{"quantized_mobilenet.pt": torch_net([1, 3, 224, 224], 1000, quantized=True)},
    ),
    _one(
        f"{_COMMON}/load_quantized_model/tensorflow/test.py",
        **{"inception_v3_quant_frozen.pb": _INCEPTION_QAT},
    ),
    _one(
        f"{_COMMON}/load_quantized_model/tflite/test.py",
        **{"inception_v1_224_quant.tflite": tflite_net(224, 1001, quantized=True)},
    ),
    _one(f"{_COMMON}/model_pruning/gen_conv_and_convert_with_pruning.py"),
    _one(f"{_COMMON}/pass_through/test.py", **{"deeplab-v3-plus-mobilenet-v2.pb": _DEEPLAB}),
    _one(
        f"{_COMMON}/single_channel_input/mnist/test.py",
        **{"mnist_cnn.pt": torch_net([1, 1, 28, 28], 10)},
    ),
    _one("darknet/yolov3/test.py", **{"yolov3.weights": darknet_weights(62001757)}),
    _one("keras/xception/test.py", **{"xception.h5": keras_net}),
    _one(
        "mxnet/fcn_resnet101/test.py",
        **{"fcn_resnet101_voc-symbol.json": _FCN[0], "fcn_resnet101_voc-0000.params": _FCN[1]},
    ),
    _one(
        "mxnet/resnext50/test.py",
        **{"resnext50_32x4d-symbol.json": _RESNEXT[0], "resnext50_32x4d-0000.params": _RESNEXT[1]},
    ),
    _one("onnx/resnet50v2/test.py", **{"resnet50v2.onnx": _RESNET50V2}),
    _one("pytorch/resnet18/test.py", **{"resnet18.pt": torch_net([1, 3, 224, 224], 1000)}),
    _one(
        "tensorflow/ssd_mobilenet_v1/test.py",
        **{
            "ssd_mobilenet_v1_coco_2018_01_28.pb": tensorflow_graph(
                "FeatureExtractor/MobilenetV1/MobilenetV1/Conv2d_0/BatchNorm/batchnorm/mul_1",
                [1, 300, 300, 3],
                _SSD_17,
            )
        },
    ),
    Example(
        "toolkit1",
        "rknn-toolkit-lite/examples/inference_with_lite/test.py",
        (),
        {
            "resnet18_rk180x.rknn": copied(
                f"../../../examples/{_COMMON}/custom_op/rknn_custom_op_resize/resize_area.rknn"
            )
        },
        1,
    ),
)

EXAMPLES: tuple[Example, ...] = (*TOOLKIT2, *ZOO, *TOOLKIT1)
"""In the order in which they run: some read what an earlier one wrote."""
