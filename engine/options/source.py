"""Options of the source model: which file, and what is taken of it."""

from __future__ import annotations

from engine.options.declare import Option

__all__ = ["SOURCE"]

SOURCE: tuple[Option, ...] = (
    Option(
        "model",
        "source",
        "path",
        "The model file; of Caffe, Darknet and MXNet the one that describes the layers.",
        generations=(1, 2),
    ),
    Option(
        "weights",
        "source",
        "path",
        "The file of weights. Unset: the one beside the model that belongs to it.",
        generations=(),
        frameworks=("caffe", "darknet", "mxnet"),
    ),
    Option(
        "inputs",
        "source",
        "names",
        "Input tensors; naming inner ones cuts the graph there. Unset: the model's own.",
    ),
    Option(
        "input_size_list",
        "source",
        "shapes",
        "The shape of every input with its batch, as [[1, 3, 224, 224]]; fixes dynamic sizes.",
    ),
    Option(
        "dynamic_input",
        "source",
        "shape_sets",
        "Several sets of input shapes, all built and simulated: [[[1, 3, 224, 224]], ...].",
    ),
    Option(
        "input_initial_val",
        "source",
        "paths",
        "One npy file or null per input; an input with a file becomes a constant.",
    ),
    Option(
        "outputs",
        "source",
        "names",
        "Output tensors; naming inner ones cuts the graph there. Unset: the model's own.",
    ),
    Option(
        "proto",
        "source",
        "choice",
        "The form of LSTM layers: lstm_caffe for networks of the CRNN fork of Caffe.",
        default="caffe",
        choices=("caffe", "lstm_caffe"),
        about={
            "caffe": "As BVLC's Caffe defines them.",
            "lstm_caffe": "As the CRNN fork defines them.",
        },
        generations=(1,),
        frameworks=("caffe",),
    ),
    Option(
        "input_name",
        "source",
        "names",
        "The input layers in the order wanted. Unset: the network's own order.",
        frameworks=("caffe",),
    ),
    Option(
        "random_weights",
        "source",
        "bool",
        "Fill the weights from a fixed seed, to try a structure without its weights.",
        default=False,
        generations=(),
        frameworks=("caffe",),
    ),
    Option(
        "input_is_nchw",
        "source",
        "bool",
        "Inputs become NCHW; otherwise they stay NHWC as in the file.",
        default=False,
        frameworks=("tensorflow", "tflite"),
    ),
    Option(
        "predef_file",
        "source",
        "path",
        "An npz file with constants for placeholders, by name, # for every / in it.",
        generations=(1,),
        frameworks=("tensorflow",),
    ),
    Option(
        "darknet_epsilon",
        "source",
        "float",
        "The epsilon of batch normalisation; OpenCV has 1e-6 where Darknet has 1e-5.",
        default=1e-5,
        minimum=0.0,
        maximum=1.0,
        generations=(),
        frameworks=("darknet",),
    ),
    Option(
        "darknet_decode",
        "source",
        "bool",
        "Decode the heads to boxes and scores; otherwise they come out raw.",
        default=False,
        generations=(),
        frameworks=("darknet",),
    ),
    Option(
        "pytorch_route",
        "source",
        "choice",
        "How TorchScript becomes a graph: by the script exporter, by torch.export, or what works.",
        default="auto",
        choices=("auto", "script", "export"),
        about={
            "auto": "The first of both that gives PyTorch's own numbers.",
            "script": "PyTorch's exporter of TorchScript.",
            "export": "torch.export, then ONNX.",
        },
        generations=(),
        frameworks=("pytorch",),
    ),
    Option(
        "custom_ops",
        "source",
        "code",
        "Classes of custom operators, as ops.py:cstSoftmax; run only where you allow the file.",
    ),
    Option(
        "op_packages",
        "source",
        "paths",
        "Packages of custom operators of generation 1 (.rknnop); their operators stay opaque.",
        generations=(1,),
    ),
)
