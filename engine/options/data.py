"""Options of preprocessing and of the calibration dataset."""

from __future__ import annotations

from engine.options.kinds import channels, choice, flags, integer, path
from engine.options.rules import divisors, epochs, mean_and_scale, permutation
from engine.options.section import Section

__all__ = ["Calibration", "Preprocessing"]


class Preprocessing(Section):
    """From a file of the dataset to an input of the network."""

    NAME = "preprocess"
    TITLE = "Preprocessing"

    mean_values = channels(
        "Subtracted from every pixel, one list of channels per input: [[127, 127, 127]]. Unset: 0.",
        stage="calibrate",
    )
    std_values = channels(
        "Every pixel is divided by it after the mean, one list per input. Unset: 1.",
        stage="calibrate",
        rule=divisors,
    )
    quant_img_RGB2BGR = flags(  # noqa: N815
        "Whether pictures are turned from RGB to BGR while reading; not for npy.",
        default=False,
        stage="calibrate",
    )
    channel_mean_value = channels(
        "The mean of every channel, then one scale, per input: 128 128 128 128#0 0 0 255.",
        generations=(1,),
        stage="calibrate",
        rule=mean_and_scale,
    )
    reorder_channel = channels(
        "The order of channels, of pictures, npy and what is inferred: 2 1 0 turns RGB to BGR.",
        generations=(1,),
        stage="calibrate",
        rule=permutation,
    )
    resize_filter = choice(
        "How pictures of another size are scaled to the input.",
        default="bilinear",
        choices=("bilinear", "nearest", "bicubic", "lanczos", "box"),
        about={
            "bilinear": "Linear between pixels; what most programs do.",
            "nearest": "The nearest pixel; fast, jagged.",
            "bicubic": "Cubic between pixels; sharper.",
            "lanczos": "A window of sinc; sharpest.",
            "box": "The mean of the pixels that one covers; for making small.",
        },
        generations=(),
        stage="calibrate",
    )
    resize_fit = choice(
        "Whether a picture is stretched, cropped in the middle, or padded with the mean.",
        default="stretch",
        choices=("stretch", "crop", "pad"),
        about={
            "stretch": "Resize to the input size; proportions are not kept.",
            "crop": "Keep proportions; crop what is outside the input.",
            "pad": "Proportions stay; borders are filled with the mean.",
        },
        generations=(),
        stage="calibrate",
    )


class Calibration(Section):
    """The calibration dataset."""

    NAME = "dataset"
    TITLE = "Calibration dataset"

    dataset = path(
        "A dataset.txt with one sample a line, or a folder of pictures.",
        generations=(1, 2),
        stage="calibrate",
    )
    dataset_count = integer(
        "How many pictures are taken from a folder.",
        default=100,
        minimum=1,
        maximum=100_000,
        generations=(),
        stage="calibrate",
    )
    dataset_seed = integer(
        "Seed of the choice among a folder's pictures.",
        default=0,
        minimum=0,
        generations=(),
        stage="calibrate",
    )
    batch_size = integer(
        "Samples a round of calibration, where epochs says how many rounds.",
        default=100,
        minimum=1,
        maximum=100_000,
        generations=(1, 2),
        stage="calibrate",
    )
    epochs = integer(
        "Rounds of batch_size samples that calibrate; -1: as many as there are samples.",
        default=-1,
        minimum=-1,
        maximum=100_000,
        generations=(1, 2),
        stage="calibrate",
        rule=epochs,
    )
