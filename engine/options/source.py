"""Options of the source model: which file, and what is taken of it."""

from __future__ import annotations

from engine.options.kinds import (
    boolean,
    choice,
    code,
    names,
    number,
    path,
    paths,
    shape_sets,
    shapes,
)
from engine.options.section import Section


class Source(Section):
    """The model's file, and what is taken of it."""

    NAME = "source"
    TITLE = "Source model"

    model = path(
        "The model file; for Caffe, Darknet and MXNet the file that describes the layers.",
        generations=(1, 2),
    )
    weights = path(
        "The weights file. Default: the matching file in the model's folder.",
        generations=(),
        frameworks=("caffe", "darknet", "mxnet"),
    )
    inputs = names(
        "Input tensors; naming inner tensors cuts the graph there. Default: the model's inputs.",
    )
    input_size_list = shapes(
        "The shape of every input with its batch, as [[1, 3, 224, 224]]; fixes dynamic sizes.",
    )
    dynamic_input = shape_sets(
        "Several sets of input shapes, all built and simulated: [[[1, 3, 224, 224]], ...].",
    )
    input_initial_val = paths(
        "An npy file or - for each input in their order, as '-;-;rate.npy'; an input with a file "
        "becomes a constant, which may decide an If.",
    )
    outputs = names(
        "Output tensors; naming inner tensors cuts the graph there. Default: the model's outputs.",
    )
    proto = choice(
        "The form of LSTM layers: lstm_caffe for networks of the CRNN fork of Caffe.",
        default="caffe",
        choices=("caffe", "lstm_caffe"),
        about={
            "caffe": "As BVLC's Caffe defines them.",
            "lstm_caffe": "As the CRNN fork defines them.",
        },
        generations=(1,),
        frameworks=("caffe",),
    )
    input_name = names(
        "The input layers in the wanted order. Default: the order in the network.",
        frameworks=("caffe",),
    )
    random_weights = boolean(
        "Random weights from a fixed seed, to try a network without its weights file.",
        default=False,
        generations=(),
        frameworks=("caffe",),
    )
    input_is_nchw = boolean(
        "Inputs become NCHW; otherwise they stay NHWC as in the file.",
        default=False,
        frameworks=("tensorflow", "tflite"),
    )
    predef_file = path(
        "An npz file with constants for placeholders, by name, with # instead of /.",
        generations=(1,),
        frameworks=("tensorflow",),
    )
    darknet_epsilon = number(
        "The epsilon of batch normalisation; OpenCV has 1e-6 where Darknet has 1e-5.",
        default=1e-5,
        minimum=0.0,
        maximum=1.0,
        generations=(),
        frameworks=("darknet",),
    )
    darknet_decode = boolean(
        "Decode the detection layers to boxes and scores; otherwise the outputs are raw.",
        default=False,
        generations=(),
        frameworks=("darknet",),
    )
    pytorch_route = choice(
        "How TorchScript is converted: by the script exporter, by torch.export, or by the first "
        "that works.",
        default="auto",
        choices=("auto", "script", "export"),
        about={
            "auto": "The first of both that reproduces PyTorch's results.",
            "script": "PyTorch's exporter of TorchScript.",
            "export": "torch.export, then ONNX.",
        },
        generations=(),
        frameworks=("pytorch",),
    )
    custom_ops = code(
        "Classes of custom operators, as ops.py:cstSoftmax; run only if you allow the file.",
    )
    op_packages = paths(
        "Packages of custom operators of generation 1 (.rknnop); their operators stay opaque.",
        generations=(1,),
    )
