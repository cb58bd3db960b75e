"""How pictures are usually normalised, as choices; and what the name of a model suggests."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from engine.base.plain import Values


@dataclass(frozen=True)
class Normalisation:
    """A usual pair of mean and std, of pixels 0..255.

    Attributes:
        name: as a list has it.
        mean, std: a value for each channel in its order, or one for all.
        order: of the channels that the values are for; empty where they are the same for all.
        about: whose training code has it.
        models: a pattern of file names whose models are usually trained with it.
        frameworks: of those models; empty for any.
    """

    name: str
    mean: tuple[float, ...]
    std: tuple[float, ...]
    order: str
    about: str
    models: str = ""
    frameworks: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """``mean 127 std 128``, with the order of the channels."""
        mean, std = (",".join(f"{n:g}" for n in row) for row in (self.mean, self.std))
        return f"mean {mean} std {std}" + (f", channels {self.order}" if self.order else "")

    def changes(self, shapes: Sequence[Sequence[int]]) -> Values:
        """The options that set it for the inputs that take pictures, by their shapes.

        Empty where none has the channels that it is for.
        """
        found = [_channels(shape) for shape in shapes]
        wide = [count if count == 3 or not self.order else 0 for count in found]
        if not any(wide):
            return {}
        mean, std = (
            [list(row * count)[:count] if count else [none] for count in wide]
            for row, none in ((self.mean, 0.0), (self.std, 1.0))
        )
        order: Values = {"quant_img_RGB2BGR": self.order == "BGR"} if self.order else {}
        return {"mean_values": mean, "std_values": std, **order}


_MEANS, _STDS = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
_CAFFE = (103.94, 116.78, 123.68)
NORMALISATIONS = (
    Normalisation("pixels as they are", (0.0,), (1.0,), "", "0 to 255 as in the file.", "yolox"),
    Normalisation(
        "0 to 1",
        (0.0,),
        (255.0,),
        "",
        "Training code that divides by 255, as YOLO.",
        r"yolo[-_]?(v?\d|world)|pp-?yolo",
    ),
    Normalisation(
        "-1 to 1 (127.5)",
        (127.5,),
        (127.5,),
        "",
        "TensorFlow's MobileNet and Inception, face recognition.",
        "mobilenet|inception|deeplab",
        ("tensorflow", "tflite"),
    ),
    Normalisation(
        "-1 to 1 (127, 128)", (127.0,), (128.0,), "", "Ultraface.", "rfb-?(320|640)|ultra-?face"
    ),
    Normalisation(
        "ImageNet",
        _MEANS,
        _STDS,
        "RGB",
        "torchvision, timm, most of PyTorch.",
        "resnet|resnext|mobilenet|efficientnet|shufflenet|densenet|squeezenet|segformer",
        ("onnx", "pytorch"),
    ),
    Normalisation(
        "ImageNet, BGR", _MEANS[::-1], _STDS[::-1], "BGR", "The same of pictures read by OpenCV."
    ),
    Normalisation("Caffe", _CAFFE, (1.0,), "BGR", "VGG, ResNet and most other models of Caffe."),
    Normalisation(
        "Caffe, scaled",
        _CAFFE,
        (58.82,),
        "BGR",
        "Caffe's MobileNet: scale 0.017.",
        "mobilenet",
        ("caffe",),
    ),
)


def usual_of(name: str, framework: str) -> Normalisation | None:
    """What models of that file name are usually trained with; a guess, None for no idea."""
    for usual in NORMALISATIONS:
        of_framework = not usual.frameworks or framework in usual.frameworks
        if usual.models and of_framework and re.search(usual.models, name.lower()):
            return usual
    return None


def _channels(shape: Sequence[int]) -> int:
    """Channels of a picture's shape, NCHW or NHWC; 0 where it is none."""
    if len(shape) != 4:
        return 0
    return next((shape[axis] for axis in (1, 3) if shape[axis] in (1, 3, 4)), 0)
