"""Every option and every name that a user can type, declared once. Standard library only.

Rendered five times: arguments of ``engine.api.RKNN``, form fields, command line flags, YAML keys of
a recipe, and ``--help`` with the docs. Names and defaults are the vendor's, generation 2 V2.3.0
where both have them (API reference 002:478-693); our own additions have no generation.
"""

from __future__ import annotations

from engine.chips import chips
from engine.options.declare import Kind, Option, Section, Value

__all__ = [
    "ALGORITHMS",
    "DTYPES",
    "GRANULARITIES",
    "OPTIONS",
    "SECTIONS",
    "STAGES",
    "Kind",
    "Option",
    "Section",
    "Value",
    "check_values",
    "named_option",
    "option",
]

STAGES = ("load", "optimise", "calibrate", "quantize", "evaluate", "container")
"""The stages of a build in order; ``Option.stage`` is the first that depends on the option."""

DTYPES = ("w8a8",)
"""Quantized dtypes that this version builds."""

ALGORITHMS = ("normal",)
"""Quantization algorithms that this version has."""

GRANULARITIES = ("channel", "layer")
"""Granularity of weights, the vendor's ``quantized_method``."""

SECTIONS: dict[Section, str] = {
    "source": "Source model",
    "preprocess": "Preprocessing",
    "quantization": "Quantization",
    "target": "Target",
    "dataset": "Calibration dataset",
}

OPTIONS: tuple[Option, ...] = (
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
    Option(
        "mean_values",
        "preprocess",
        "channels",
        "Subtracted from every pixel, one list of channels per input: [[127, 127, 127]]. Unset: 0.",
        stage="calibrate",
    ),
    Option(
        "std_values",
        "preprocess",
        "channels",
        "Every pixel is divided by it after the mean, one list per input. Unset: 1.",
        stage="calibrate",
    ),
    Option(
        "quant_img_RGB2BGR",
        "preprocess",
        "flags",
        "Whether pictures are turned from RGB to BGR while reading; not for npy.",
        default=False,
        stage="calibrate",
    ),
    Option(
        "resize_filter",
        "preprocess",
        "choice",
        "How pictures of another size are scaled to the input.",
        default="bilinear",
        choices=("bilinear", "nearest", "bicubic", "lanczos", "box"),
        generations=(),
        stage="calibrate",
    ),
    Option(
        "resize_fit",
        "preprocess",
        "choice",
        "Whether a picture is stretched, cropped in the middle, or padded with the mean.",
        default="stretch",
        choices=("stretch", "crop", "pad"),
        generations=(),
        stage="calibrate",
    ),
    Option(
        "do_quantization",
        "quantization",
        "bool",
        "Whether to quantize; otherwise the float graph goes through all stages.",
        default=True,
        generations=(1, 2),
        stage="calibrate",
    ),
    Option(
        "quantized_dtype",
        "quantization",
        "choice",
        "Types of weights and activations.",
        default="w8a8",
        choices=DTYPES,
        stage="quantize",
        aliases={"asymmetric_quantized-8": "w8a8"},
    ),
    Option(
        "quantized_algorithm",
        "quantization",
        "choice",
        "How ranges are chosen from what calibration saw: normal is minimum and maximum.",
        default="normal",
        choices=ALGORITHMS,
        stage="calibrate",
    ),
    Option(
        "quantized_method",
        "quantization",
        "choice",
        "One scale per output channel of a weight (channel) or one per weight (layer).",
        default="channel",
        choices=GRANULARITIES,
        stage="quantize",
    ),
    Option(
        "optimization_level",
        "quantization",
        "int",
        "0: the graph as it is; 3: every rewrite; 1 and 2 leave out some that may touch accuracy.",
        default=3,
        minimum=0,
        maximum=3,
        generations=(1, 2),
        stage="optimise",
    ),
    Option(
        "target_platform",
        "target",
        "choice",
        "The chip; unset while only simulating.",
        choices=tuple(c.name for c in chips()),
        generations=(1, 2),
        stage="container",
        aliases={alias: c.name for c in chips() for alias in c.aliases},
    ),
    Option(
        "custom_string",
        "target",
        "text",
        "A text of your own, stored in the .rknn file.",
        stage="container",
    ),
    Option(
        "dataset",
        "dataset",
        "path",
        "A dataset.txt with one sample a line, or a folder of pictures.",
        generations=(1, 2),
        stage="calibrate",
    ),
    Option(
        "dataset_count",
        "dataset",
        "int",
        "How many pictures are taken from a folder.",
        default=100,
        minimum=1,
        maximum=100_000,
        generations=(),
        stage="calibrate",
    ),
    Option(
        "dataset_seed",
        "dataset",
        "int",
        "Seed of the choice among a folder's pictures.",
        default=0,
        minimum=0,
        generations=(),
        stage="calibrate",
    ),
)

_BY_NAME = {o.name: o for o in OPTIONS}


def option(name: str) -> Option:
    """The option of that name; KeyError where there is none, which is never a user's mistake."""
    return _BY_NAME[name]


def named_option(text: str) -> str | None:
    """The first option, in their order, that a text such as an error's names; None without one.

    Only names with an underscore count: ``model`` or ``inputs`` is also a word of a sentence.
    """
    return next((o.name for o in OPTIONS if "_" in o.name and o.name in text), None)


def check_values(values: dict[str, Value]) -> dict[str, str]:
    """Check a flat dict of option values; returns option name -> message where one is unfit."""
    from engine.base.errors import RecipeError
    from engine.base.text import did_you_mean

    problems: dict[str, str] = {}
    for name, value in values.items():
        known = _BY_NAME.get(name)
        if known is None:
            problems[name] = f"There is no option {name}. {did_you_mean(name, _BY_NAME)}".strip()
            continue
        try:
            known.check(value)
        except RecipeError as error:
            problems[name] = error.what
    return problems
