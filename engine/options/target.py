"""Options of the chip and of the vendor's compiler."""

from __future__ import annotations

from engine.facts import chips
from engine.options.kinds import boolean, choice, text
from engine.options.names import PLATFORM_ABOUT
from engine.options.section import Section


class Target(Section):
    """The chip, and what is stored beside the model."""

    NAME = "target"
    TITLE = "Target"
    STAGE = "container"

    target_platform = choice(
        "Target chip; optional for simulation.",
        default=None,
        choices=tuple(c.name for c in chips()),
        generations=(1, 2),
        aliases={alias: c.name for c in chips() for alias in c.aliases},
        about=PLATFORM_ABOUT,
    )
    custom_string = text(
        "Any text, stored in the .rknn file.",
        role="compiler",
    )
    inputs_yuv_fmt = text(
        "The YUV format of inputs, an option of toolkit 2.3.2.",
        role="refused",
        reason="No manual describes the conversion, so it cannot be calibrated or simulated. "
        "Convert to RGB or BGR first.",
    )
    pre_compile = boolean(
        "A model that starts faster and runs on hardware only.",
        default=False,
        generations=(1,),
        role="refused",
        reason="Such a model cannot be simulated; RKNN.build(pre_compile=True) has the vendor's "
        "toolkit of generation 1 make it.",
    )


class Compiler(Section):
    """What concerns the vendor's binary alone: carried to its compiler, no effect here."""

    NAME = "compiler"
    TITLE = "Compiler"
    STAGE = "container"
    ROLE = "compiler"

    remove_weight = boolean(
        "Omit the weights, for a model that shares those of another model.",
        default=False,
    )
    compress_weight = boolean(
        "Compress the weights in the file.",
        default=False,
    )
    single_core_mode = boolean(
        "Compile for one core only, on RK3588 and RK3576.",
        default=False,
    )
    sparse_infer = boolean(
        "Skip zero weights at run time, on RK3576.",
        default=False,
    )
    enable_flash_attention = boolean(
        "Compute attention with Flash Attention.",
        default=False,
    )
    need_horizontal_merge = boolean(
        "Merge parallel convolutions, as in Inception v1, v3 and v4.",
        default=False,
        generations=(1,),
    )
