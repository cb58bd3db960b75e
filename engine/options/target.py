"""Options of the chip and of the vendor's compiler."""

from __future__ import annotations

from engine.chips import chips
from engine.options.about import PLATFORM_ABOUT
from engine.options.declare import Option

__all__ = ["COMPILER", "TARGET"]

TARGET: tuple[Option, ...] = (
    Option(
        "target_platform",
        "target",
        "choice",
        "The chip; unset while only simulating.",
        choices=tuple(c.name for c in chips()),
        generations=(1, 2),
        stage="container",
        aliases={alias: c.name for c in chips() for alias in c.aliases},
        about=PLATFORM_ABOUT,
    ),
    Option(
        "custom_string",
        "target",
        "text",
        "A text of your own, stored in the .rknn file.",
        stage="container",
        role="compiler",
    ),
    Option(
        "inputs_yuv_fmt",
        "target",
        "text",
        "The YUV format of inputs, that toolkit 2.3.2 names.",
        stage="container",
        role="refused",
        reason="No manual says how it converts, so that neither calibration nor simulation could "
        "show it. Convert to RGB or BGR before.",
    ),
    Option(
        "pre_compile",
        "target",
        "bool",
        "A model that starts faster and runs on hardware only.",
        default=False,
        generations=(1,),
        stage="container",
        role="refused",
        reason="Such a model cannot be simulated; the vendor's toolkit makes it.",
    ),
)

COMPILER: tuple[Option, ...] = (
    Option(
        "remove_weight",
        "compiler",
        "bool",
        "Leave the weights out: a model that shares those of another.",
        default=False,
        stage="container",
        role="compiler",
    ),
    Option(
        "compress_weight",
        "compiler",
        "bool",
        "Compress the weights in the file.",
        default=False,
        stage="container",
        role="compiler",
    ),
    Option(
        "single_core_mode",
        "compiler",
        "bool",
        "Only the form for one core, of RK3588 and RK3576.",
        default=False,
        stage="container",
        role="compiler",
    ),
    Option(
        "sparse_infer",
        "compiler",
        "bool",
        "Skip weights of zero while running, on RK3576.",
        default=False,
        stage="container",
        role="compiler",
    ),
    Option(
        "enable_flash_attention",
        "compiler",
        "bool",
        "Attention in the form of Flash Attention.",
        default=False,
        stage="container",
        role="compiler",
    ),
    Option(
        "need_horizontal_merge",
        "compiler",
        "bool",
        "Merge parallel convolutions, as Inception v1, v3 and v4 have them.",
        default=False,
        generations=(1,),
        stage="container",
        role="compiler",
    ),
)
