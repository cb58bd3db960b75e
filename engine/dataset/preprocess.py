"""From pixels and arrays to inputs of the network: layout, channel order, mean and std.

The vendor's order [RKNN-T2 1.1.0, 3.5.2; RKNN-T2 2.3.0, 2.2]: RGB to BGR first, then mean, then
std. Mean and std apply to npy too, the swap does not [RKNN-T2 1.1.0, 3.5.2]. Generation 1's
``reorder_channel`` comes first as well [RKNN-TS 1.4.0, 1.2]; it is part of the model there
[RKNN-T1 1.3.2, 3.6.3], and so applies to npy and to whatever is fed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from engine.base.errors import DatasetError, RecipeError
from engine.base.findings import Finding
from engine.base.text import sanitize, shape_text

if TYPE_CHECKING:
    from engine.graph.ir import QuantParams, TensorSpec
    from engine.recipe import Recipe

Layout = Literal["NCHW", "NHWC", ""]


@dataclass(frozen=True)
class Preprocess:
    """How files become inputs.

    Attributes:
        mean, std: one tuple per input, of one value per channel or one for all; None: 0 and 1.
        rgb2bgr: whether pictures are swapped to BGR, for all inputs or per input.
        resize_filter: of Pillow: bilinear, nearest, bicubic, lanczos, box.
        resize_fit: ``stretch``, ``crop`` (fill, cut in the middle) or ``pad`` (whole picture, the
            rest is the mean).
        generation: of the vendor's toolkit whose reading of an ambiguous npy shape is followed.
        reorder: generation 1's order of channels per input; None: as they come.
        names: of the options that mean and std came from, for messages.
    """

    mean: tuple[tuple[float, ...], ...] | None = None
    std: tuple[tuple[float, ...], ...] | None = None
    rgb2bgr: bool | tuple[bool, ...] = False
    resize_filter: str = "bilinear"
    resize_fit: str = "stretch"
    generation: int = 2
    reorder: tuple[tuple[int, ...], ...] | None = None
    names: tuple[str, str] = ("mean_values", "std_values")

    @classmethod
    def from_recipe(cls, recipe: Recipe, generation: int = 2) -> Preprocess:
        """The preprocessing of a recipe."""
        part = recipe.preprocess
        mean, std, names = part.mean_values, part.std_values, cls.names
        if part.channel_mean_value is not None:
            mean = tuple(row[:-1] for row in part.channel_mean_value)
            std = tuple(row[-1:] for row in part.channel_mean_value)
            names = ("channel_mean_value", "channel_mean_value")
        orders = part.reorder_channel
        return cls(
            mean,
            std,
            part.quant_img_RGB2BGR,
            part.resize_filter,
            part.resize_fit,
            generation,
            None if orders is None else tuple(tuple(int(c) for c in row) for row in orders),
            names,
        )

    def plans(self, inputs: Sequence[TensorSpec]) -> tuple[InputPlan, ...]:
        """What is to be done for each input of a model.

        Raises:
            RecipeError: mean, std or the swap do not fit the number of inputs or channels.
            DatasetError: an input without a fixed size.
        """
        for option, rows in (
            (self.names[0], self.mean),
            (self.names[1], self.std),
            ("reorder_channel", self.reorder),
        ):
            fits = rows is None or len(rows) == len(inputs)
            if rows is not None and not fits and not self._left_out(option, rows, inputs):
                raise _count_error(option, len(rows), inputs)
        flags = self.rgb2bgr
        if isinstance(flags, bool):
            flags = (flags,) * len(inputs)
        elif len(flags) != len(inputs):
            raise _count_error("quant_img_RGB2BGR", len(flags), inputs)
        return tuple(self._plan(spec, index, flags[index]) for index, spec in enumerate(inputs))

    @staticmethod
    def _left_out(
        option: str, rows: Sequence[Sequence[float]], inputs: Sequence[TensorSpec]
    ) -> bool:
        """Whether the last inputs have no mean or std, as toolkit 2 allows."""
        return option in ("mean_values", "std_values") and 0 < len(rows) < len(inputs)

    def notes(self, inputs: Sequence[TensorSpec]) -> tuple[Finding, ...]:
        """What is assumed where mean and std have fewer entries than the model inputs."""
        for option, rows in zip(self.names, (self.mean, self.std), strict=True):
            if rows is None or not self._left_out(option, rows, inputs):
                continue
            left = ", ".join(sanitize(spec.name, 40) for spec in inputs[len(rows) :][:8])
            return (
                Finding(
                    "inputs-not-normalised",
                    "warning",
                    option,
                    f"{option} has {len(rows)} of {len(inputs)} entries: {left} is taken as it is.",
                    cause="The entries belong to the first inputs, in the model's order.",
                    remedy="Give an entry per input where that is not meant; [0] and [1] change "
                    "nothing.",
                ),
            )
        return ()

    def _plan(self, spec: TensorSpec, index: int, swap: bool) -> InputPlan:
        name = sanitize(spec.name, 80)
        if any(size < 0 for size in spec.shape):
            raise DatasetError(
                f"Input {name} has no fixed size ({shape_text(spec.shape)}).",
                remedy="Set input_size_list.",
            )
        layout = _layout_of(spec.shape)
        axis = {"NCHW": 1, "NHWC": 3, "": min(1, len(spec.shape) - 1)}[layout]
        channels = spec.shape[axis] if spec.shape else 1
        return InputPlan(
            name=spec.name,
            shape=spec.shape,
            dtype=spec.dtype,
            layout=layout,
            channels=channels,
            mean=_per_channel(self.names[0], self.mean, index, name, channels, 0.0),
            std=_per_channel(self.names[1], self.std, index, name, channels, 1.0),
            swap=swap,
            reorder=_order(self.reorder, index, layout, channels),
            resize_filter=self.resize_filter,
            resize_fit=self.resize_fit,
            generation=self.generation,
            quant=spec.quant,
            mask=spec.mask,
        )


@dataclass(frozen=True)
class InputPlan:
    """Preprocessing of one input, checked against its shape.

    Attributes:
        name, shape, dtype: of the input, as the model has it.
        layout: where its channels are; empty for an input that takes no picture.
        channels: their number; of other inputs the size of axis 1.
        mean, std: one value per channel; None where all are 0 (or 1): nothing is computed then.
        swap: whether pictures become BGR.
        quant: (scale, zero point) of an 8-bit input that stands for real values: pixels and float
            arrays are quantized with it, after mean and std; arrays of the input's own type are
            taken as they are.
        reorder: new channel -> channel of the file or array, before mean and std; None: the same.
        mask: whether it may hold minus infinity (see :class:`~engine.graph.ir.TensorSpec`).
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    layout: Layout
    channels: int
    mean: tuple[float, ...] | None
    std: tuple[float, ...] | None
    swap: bool
    resize_filter: str
    resize_fit: str
    generation: int
    quant: tuple[float, int] | None = None
    reorder: tuple[int, ...] | None = None
    mask: bool = False

    @property
    def channel_order(self) -> tuple[int, ...] | None:
        """New channel -> channel of a picture (RGB, or grey); None: the same."""
        return (2, 1, 0) if self.swap and self.channels == 3 else self.reorder

    @property
    def takes_images(self) -> bool:
        """Whether a picture fits: four dimensions, 1 or 3 channels."""
        return self.layout != "" and self.channels in (1, 3)

    @property
    def height(self) -> int:
        """Height in pixels of an input that takes pictures."""
        return self.shape[2 if self.layout == "NCHW" else 1]

    @property
    def width(self) -> int:
        """Width in pixels of an input that takes pictures."""
        return self.shape[3 if self.layout == "NCHW" else 2]

    def accepted_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes that an npy may have: the model's layout first, each with and without batch 1.

        An input of rank 0 also takes an array of one value.
        """
        if not self.shape:
            return ((), (1,))
        shapes = [self.shape, *([other] if (other := self._other_shape()) else [])]
        if self.shape and self.shape[0] == 1:
            shapes += [shape[1:] for shape in shapes if len(shape) > 1]
        return tuple(dict.fromkeys(shapes))

    def _other_shape(self) -> tuple[int, ...] | None:
        if self.layout == "NCHW":
            n, c, h, w = self.shape
            return (n, h, w, c)
        if self.layout == "NHWC":
            n, h, w, c = self.shape
            return (n, c, h, w)
        return None

    def ambiguous(self, shape: tuple[int, ...]) -> bool:
        """Whether a shape fits both layouts, and it matters: channels, height, width are equal."""
        if not self.layout or shape not in self.accepted_shapes():
            return False
        c, h, w = self.channels, self.height, self.width
        return c == h == w and c > 1

    def to_model_layout(self, array: np.ndarray, given: Layout | None = None) -> np.ndarray | None:
        """A view of an array in the model's shape; None where no accepted shape is its own.

        Args:
            array: of one of :meth:`accepted_shapes`.
            given: the layout that the caller knows; None lets the shape decide, and where both fit
                NHWC for generation 1, the model's layout for generation 2.
        """
        if array.shape not in self.accepted_shapes():
            return None
        if not self.shape:
            return array.reshape(())
        if len(array.shape) < len(self.shape):
            array = array[np.newaxis]
        own = array.shape == self.shape
        other = array.shape == self._other_shape()
        if not self.layout or (own and not other):
            return array
        if own and other:
            layout = given or ("NHWC" if self.generation == 1 else self.layout)
            if layout == self.layout:
                return array
        # the layouts differ: NHWC to NCHW or back
        return array.transpose(0, 3, 1, 2) if self.layout == "NCHW" else array.transpose(0, 2, 3, 1)

    def normalise_pixels(self, pixels: np.ndarray) -> np.ndarray:
        """The input from pixels (H, W, C), uint8 or float32, in the model's layout and dtype.

        Computes ``(float32(p) - float32(mean)) / float32(std)``; a batch above 1 repeats it.
        """
        plain = self.mean is None and self.std is None and self.quant is None
        if plain and self.dtype == str(pixels.dtype):
            scaled = pixels
        else:
            scaled = self._quantized(self._scaled(pixels.astype(np.float32), -1))
        if self.layout == "NCHW":
            scaled = scaled.transpose(2, 0, 1)
        batch = np.broadcast_to(scaled, self.shape)
        return self._cast(np.ascontiguousarray(batch))

    def normalise(self, array: np.ndarray) -> np.ndarray:
        """The input from an array that has the model's shape already.

        Raises:
            DatasetError: values that the input's dtype cannot hold; not finite.
        """
        if not self._holds(array):
            raise DatasetError(
                "has values that are not finite (NaN or infinity)",
                cause="Whatever wrote the file divided by zero or overflowed.",
                remedy="Write finite numbers; only an attention mask may hold minus infinity.",
            )
        axis = 3 if self.layout == "NHWC" else min(1, array.ndim - 1)
        if self.reorder is not None:
            array = np.take(array, self.reorder, axis)
        own = self.quant is None or str(array.dtype) == self.dtype
        if self.mean is None and self.std is None and own:
            return self._finite(self._cast(np.asarray(array, order="C")))
        with np.errstate(over="ignore"):
            scaled = self._scaled(array.astype(np.float32, order="C"), axis)
        return self._finite(self._cast(self._quantized(self._finite(scaled))))

    def _scaled(self, values: np.ndarray, axis: int) -> np.ndarray:
        """Float32 values, changed in place: without the mean, by the std, channels on ``axis``."""
        shape = [1] * values.ndim
        if values.ndim:
            shape[axis] = -1
        if self.mean is not None:
            values -= np.asarray(self.mean, dtype=np.float32).reshape(shape)
        if self.std is not None:
            values /= np.asarray(self.std, dtype=np.float32).reshape(shape)
        return values

    def _holds(self, array: np.ndarray) -> bool:
        if array.dtype.kind != "f":
            return True
        # NaN is not below infinity either
        good = (array < np.inf) if self.mask else np.isfinite(array)
        return bool(good.all())

    def _finite(self, array: np.ndarray) -> np.ndarray:
        if not self._holds(array):
            raise DatasetError(
                f"has values that input {sanitize(self.name, 80)} of type {self.dtype} cannot hold",
                cause=f"They are finite, but beyond {array.dtype}: as they are, or after "
                "mean_values and std_values.",
                remedy="Write values of the range that the model was trained with.",
            )
        return array

    def _quantized(self, values: np.ndarray) -> np.ndarray:
        """Real values as the integers of a quantized input, rounded half to even, saturated."""
        if self.quant is None:
            return values
        scale, zero_point = self.quant
        limits = np.iinfo(np.dtype(self.dtype))
        steps = np.rint(values / np.float32(scale)) + zero_point
        return np.asarray(np.clip(steps, limits.min, limits.max), dtype=self.dtype)

    def _cast(self, array: np.ndarray) -> np.ndarray:
        dtype = np.dtype(self.dtype)
        if array.dtype == dtype:
            return array
        with np.errstate(invalid="ignore", over="ignore"):
            cast = array.astype(dtype)
        if dtype.kind in "iub" and not np.array_equal(cast, array):
            raise DatasetError(
                f"has values that input {sanitize(self.name, 80)} of type {dtype} cannot hold",
                cause="The input takes whole numbers; the values, after mean and std, are none or "
                "are out of its range.",
                remedy="Give whole numbers in range, and leave mean_values and std_values unset.",
            )
        return cast


def _layout_of(shape: tuple[int, ...]) -> Layout:
    """NCHW for four dimensions, but where only the last can be the channels of a picture."""
    if len(shape) != 4:
        return ""
    if shape[1] not in (1, 3) and shape[3] in (1, 3):
        return "NHWC"
    return "NCHW"


def _count_error(option: str, count: int, inputs: Sequence[TensorSpec]) -> RecipeError:
    names = ", ".join(sanitize(spec.name, 40) for spec in inputs[:8])
    return RecipeError(
        f"{option} has {count} entries and the model {len(inputs)} inputs ({names}).",
        cause="It needs one entry per input, in the model's order.",
        remedy=f"Give {len(inputs)} entries.",
    )


def _per_channel(
    option: str,
    rows: tuple[tuple[float, ...], ...] | None,
    index: int,
    name: str,
    channels: int,
    neutral: float,
) -> tuple[float, ...] | None:
    if rows is None or index >= len(rows) or all(value == neutral for value in rows[index]):
        return None
    row = rows[index]
    if len(row) == 1:  # one value for all channels, our addition
        return row * channels
    if len(row) != channels:
        raise RecipeError(
            f"{option} has {len(row)} values for input {name}, which has {channels} channels.",
            remedy=f"Give {channels} values, or one for all channels.",
        )
    return row


def _order(
    orders: tuple[tuple[int, ...], ...] | None, index: int, layout: Layout, channels: int
) -> tuple[int, ...] | None:
    """The order of one input's channels; of other inputs than of 3 channels it is ignored."""
    if orders is None or not layout or channels != 3:
        return None
    row = orders[index]
    if len(row) != channels:
        raise RecipeError(
            f"reorder_channel has {len(row)} numbers for input {index + 1}, which has {channels} "
            "channels.",
            remedy="Give a number per channel, as '2 1 0'.",
        )
    return None if row == tuple(sorted(row)) else row


def prepare_array(array: np.ndarray, plan: InputPlan, layout: Layout | None = None) -> np.ndarray:
    """The input from an array of a caller: layout by its shape, mean and std, dtype.

    Args:
        array: of one of ``plan.accepted_shapes()``.
        plan: of the input.
        layout: what the caller says (the vendor's ``data_format``); it decides where both layouts
            fit the shape.

    Raises:
        DatasetError: the shape does not fit, or the values do not.
    """
    placed = plan.to_model_layout(array, layout)
    name = sanitize(plan.name, 80)
    if placed is None:
        raise shape_error(f"The array for input {name}", array.shape, plan)
    try:
        return plan.normalise(placed)
    except DatasetError as error:
        raise DatasetError(
            f"The array for input {name} {error.what}.", cause=error.cause, remedy=error.remedy
        ) from error


def shape_error(what: str, shape: tuple[int, ...], plan: InputPlan) -> DatasetError:
    """The error for an array whose shape fits no layout of the input."""
    accepted = " or ".join(shape_text(s) for s in plan.accepted_shapes())
    cause, remedy = "An npy is not scaled: it must have the input's own shape.", ""
    turned = next((s for s in plan.accepted_shapes() if sorted(s) == sorted(shape)), None)
    if turned is not None:
        axes = _permutation(shape, turned)
        cause = f"It has these sizes in another order: its axes are not {shape_text(turned)}."
        remedy = f" Save array.transpose({', '.join(map(str, axes))})."
    return DatasetError(
        f"{what} has the shape {shape_text(shape)}; "
        f"input {sanitize(plan.name, 80)} takes {accepted}.",
        cause=cause,
        remedy=f"Write it in that shape.{remedy}",
    )


def _permutation(shape: tuple[int, ...], target: tuple[int, ...]) -> list[int]:
    """Axes of ``shape`` in the order that gives ``wanted``, equal sizes in their own order."""
    left = list(range(len(shape)))
    axes = []
    for size in target:
        axis = next(axis for axis in left if shape[axis] == size)
        left.remove(axis)
        axes.append(axis)
    return axes


# Arrays that are handed to a model as they are: no mean and std, integers as the NPU has them.


def passed_through(
    array: np.ndarray, plan: InputPlan, layout: Layout | None, params: QuantParams | None
) -> np.ndarray:
    """The input from an array of a caller who passes it through.

    Args:
        array: of one of ``plan.accepted_shapes()``. Whole numbers of 8 bits, or of the
            quantized input's own dtype, are dequantized; other numbers are values of the input.
        plan: of the input.
        layout: what the caller says; it decides where both layouts fit the shape.
        params: of a quantized input.

    Raises:
        DatasetError: the shape does not fit.
    """
    placed = plan.to_model_layout(array, layout)
    if placed is None:
        accepted = " or ".join(shape_text(s) for s in plan.accepted_shapes())
        raise DatasetError(
            f"The array for input {sanitize(plan.name, 80)} has the shape "
            f"{shape_text(array.shape)}; it takes {accepted}.",
            remedy="Give it in that shape.",
        )
    values = placed.astype(np.float32)
    if params is not None and array.dtype.name in ("int8", "uint8", params.dtype):
        shift = 128 if array.dtype.name == "uint8" and params.dtype == "int8" else 0
        zero = np.float32(params.zero_point[0] + shift)
        values = (values - zero) * np.float32(params.scale[0])
    return np.asarray(values, dtype=plan.dtype, order="C")
