"""Parameters of the vendor's methods where the generations differ: names, order, defaults.

Generation 1: the manual V1.3.2, then what the vendor's later code of that generation adds.
Generation 2: the manual V2.3.0, of ``config`` the order of the vendor's code; V1.1.0's own
parameters are keywords. Sources: the vendor's user guides V1.3.2 (000) and V1.1.0 (001), its API
reference V2.3.0 (002).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import Parameter, Signature
from types import MethodType
from typing import Any, TypeVar

from engine.api.later_toolkits import LATER_CONFIG
from engine.base.errors import UsageError
from engine.base.text import did_you_mean

Class = TypeVar("Class")

SNAPSHOT = "./snapshot"
"""Where ``accuracy_analysis`` writes where nothing else is said."""


class _Needed:
    def __repr__(self) -> str:
        return "required"


NEEDED: Any = _Needed()
"""The default of a parameter that has none."""

Parameters = Mapping[str, Any]
"""Name -> default, or what a script gave: anything at all, which who reads it checks."""

CONFIG_1: Parameters = {
    "batch_size": 100,
    "channel_mean_value": None,
    "epochs": -1,
    "reorder_channel": None,
    "need_horizontal_merge": False,
    "quantized_dtype": "asymmetric_quantized-u8",
    "optimization_level": 3,
    "target_platform": None,  # means ['rk1808']
}
CONFIG_2: Parameters = {
    "mean_values": None,
    "std_values": None,
    "quantized_dtype": "w8a8",
    "quantized_algorithm": "normal",
    "quantized_method": "channel",
    "quantized_hybrid_level": 0,
    "target_platform": None,
    "quant_img_RGB2BGR": False,
    "float_dtype": "float16",
    "optimization_level": 3,
    "custom_string": None,
    "remove_weight": False,
    "compress_weight": False,
    "inputs_yuv_fmt": None,
    "single_core_mode": False,
    "dynamic_input": None,
    "model_pruning": False,
    "op_target": None,
    "quantize_weight": False,
    "remove_reshape": False,
    "sparse_infer": False,
    "enable_flash_attention": False,
    "auto_hybrid_cos_thresh": 0.98,
    "auto_hybrid_euc_thresh": None,
}
_CONFIG_2_MANUAL = (
    "mean_values",
    "std_values",
    "quant_img_RGB2BGR",
    "quantized_dtype",
    "quantized_algorithm",
    "quantized_method",
    "float_dtype",
    "optimization_level",
    "target_platform",
    "custom_string",
    "remove_weight",
    "compress_weight",
    "single_core_mode",
    "model_pruning",
    "op_target",
    "dynamic_input",
    "quantize_weight",
    "remove_reshape",
    "sparse_infer",
    "enable_flash_attention",
)
_CONFIG_2_V110 = (
    "batch_size",
    "mean_values",
    "std_values",
    "epochs",
    "quant_img_RGB2BGR",
    "quantized_dtype",
    "quantized_algorithm",
    "quantized_method",
    "optimization_level",
    "target_platform",
    "custom_string",
)
_OURS: Parameters = {"bias_correction": True, "quantized_layers": None, "quantized_ranges": None}
_ANY_RUNTIME: Parameters = {
    "target": None,
    "device_id": None,
    "perf_debug": False,
    "eval_mem": False,
    "async_mode": False,
}
_MORE_RUNTIME: Parameters = {
    "target_sub_class": None,
    "rknn2precompile": False,
    "arithmetic": "integer",  # ours
}

_ONNX: Parameters = {
    "inputs": None,
    "input_size_list": None,
    "input_initial_val": None,
    "outputs": None,
}
_DARKNET: Parameters = {"epsilon": 1e-5, "decode": False}  # ours
_CAFFE_V110 = ("model", "proto", "blobs", "input_name")

POSITIONAL: dict[tuple[str, int], Parameters] = {
    ("config", 1): CONFIG_1,
    ("config", 2): CONFIG_2,
    ("load_caffe", 1): {"model": NEEDED, "proto": "caffe", "blobs": None},
    ("load_caffe", 2): {"model": NEEDED, "blobs": None, "input_name": None},
    ("load_tensorflow", 1): {
        "tf_pb": NEEDED,
        "inputs": None,
        "input_size_list": None,
        "outputs": None,
        "predef_file": None,
        "mean_values": None,
        "std_values": None,
    },
    ("load_tensorflow", 2): {
        "tf_pb": NEEDED,
        "inputs": None,
        "input_size_list": None,
        "outputs": None,
        "input_is_nchw": False,
    },
    ("load_tflite", 1): {"model": NEEDED},
    ("load_tflite", 2): {"model": NEEDED, "input_is_nchw": False},
    ("load_onnx", 1): {"model": NEEDED, **_ONNX},
    ("load_onnx", 2): {"model": NEEDED, **_ONNX},
    ("load_darknet", 1): {"model": NEEDED, "weight": NEEDED},
    ("load_darknet", 2): {"model": NEEDED, "weight": NEEDED},
    ("load_pytorch", 1): {
        "model": NEEDED,
        "input_size_list": None,
        "inputs": None,
        "outputs": None,
        "convert_engine": "torch",
    },
    ("load_pytorch", 2): {"model": NEEDED, "input_size_list": NEEDED},
    ("load_mxnet", 1): {"symbol": NEEDED, "params": NEEDED, "input_size_list": None},
    ("load_mxnet", 2): {"symbol": NEEDED, "params": NEEDED, "input_size_list": NEEDED},
    ("build", 1): {
        "do_quantization": True,
        "dataset": None,
        "pre_compile": False,
        "rknn_batch_size": 1,
    },
    ("build", 2): {
        "do_quantization": True,
        "dataset": None,
        "rknn_batch_size": None,
        "auto_hybrid": False,
    },
    ("hybrid_quantization_step1", 1): {"dataset": "dataset.txt"},
    ("hybrid_quantization_step1", 2): {
        "dataset": "dataset.txt",
        "rknn_batch_size": None,
        "proposal": False,
        "proposal_dataset_size": 1,
        "custom_hybrid": None,
    },
    ("hybrid_quantization_step2", 1): {
        "model_input": NEEDED,
        "data_input": NEEDED,
        "model_quantization_cfg": NEEDED,
        "dataset": None,
        "pre_compile": False,
    },
    ("hybrid_quantization_step2", 2): {
        "model_input": NEEDED,
        "data_input": NEEDED,
        "model_quantization_cfg": NEEDED,
    },
    ("load_rknn", 1): {"path": NEEDED, "load_model_in_npu": False},
    ("load_rknn", 2): {"path": NEEDED, "load_model_in_npu": False},
    ("init_runtime", 1): _ANY_RUNTIME,
    ("init_runtime", 2): {**_ANY_RUNTIME, "core_mask": 0, "fallback_prior_device": "cpu"},
    ("inference", 1): {
        "inputs": NEEDED,
        "data_type": "uint8",
        "data_format": "nhwc",
        "inputs_pass_through": None,
    },
    ("inference", 2): {
        "inputs": NEEDED,
        "data_format": None,
        "inputs_pass_through": None,
        "get_frame_id": False,
    },
    ("eval_perf", 1): {
        "inputs": None,
        "data_type": None,
        "data_format": None,
        "is_print": True,
        "loop_cnt": None,
    },
    ("eval_perf", 2): {"is_print": True, "fix_freq": True},
    ("eval_memory", 1): {"is_print": True},
    ("eval_memory", 2): {"is_print": True},
    ("codegen", 1): {"output_path": NEEDED, "inputs": None, "overwrite": False},
    ("codegen", 2): {"output_path": NEEDED, "inputs": None, "overwrite": False},
    ("accuracy_analysis", 1): {
        "inputs": NEEDED,
        "output_dir": SNAPSHOT,
        "calc_qnt_error": True,
    },
    ("accuracy_analysis", 2): {
        "inputs": NEEDED,
        "output_dir": SNAPSHOT,
        "target": None,
        "device_id": None,
    },
}

_CODEGEN: Parameters = {"language": "cpp", "task": "none", "chip": None, "model": None}

KEYWORDS: dict[tuple[str, int], Parameters] = {
    ("config", 1): {
        "mean_values": None,
        "std_values": None,
        "quantized_algorithm": "normal",
        "model_pruning": False,
        **LATER_CONFIG,
        **_OURS,
    },
    ("config", 2): {"batch_size": 100, "epochs": -1, **_OURS},
    ("load_caffe", 1): {"input_name": None},
    ("load_caffe", 2): {"proto": "caffe"},
    ("load_tensorflow", 1): {"size_with_batch": None, "input_is_nchw": False},
    ("load_tensorflow", 2): {"predef_file": None},
    ("load_tflite", 1): {"input_is_nchw": False},
    ("load_darknet", 1): _DARKNET,
    ("load_darknet", 2): _DARKNET,
    ("load_pytorch", 1): {"route": "auto"},
    ("load_pytorch", 2): {"inputs": None, "outputs": None, "route": "auto"},
    ("build", 1): {"auto_hybrid": False, "auto_hybrid_quant": False},
    ("build", 2): {"auto_hybrid_quant": False, "pre_compile": False},
    ("hybrid_quantization_step2", 2): {"dataset": None, "pre_compile": False},
    ("load_rknn", 1): {"key_file": None},  # ours
    ("load_rknn", 2): {"key_file": None},
    ("init_runtime", 1): _MORE_RUNTIME,
    ("init_runtime", 2): _MORE_RUNTIME,
    ("eval_perf", 1): {"fix_freq": False},
    ("eval_perf", 2): {"inputs": None, "data_type": None, "data_format": None, "loop_cnt": None},
    ("inference", 1): {"get_frame_id": False},
    ("inference", 2): {"data_type": None},
    ("accuracy_analysis", 1): {
        "target": None,
        "device_id": None,
        "dump_file_type": "tensor",
        "compiled": None,
    },
    ("accuracy_analysis", 2): {"calc_qnt_error": True, "compiled": None},
    ("codegen", 1): _CODEGEN,
    ("codegen", 2): _CODEGEN,
}
"""What other versions of the vendor's code have, and our own additions, by keyword only."""
RUNTIME: Parameters = {**POSITIONAL["init_runtime", 2], **_MORE_RUNTIME}
"""All arguments of ``init_runtime``, of both generations -> their defaults."""


_SHOWN_NEEDED = {
    ("load_tensorflow", generation): frozenset({"inputs", "input_size_list", "outputs"})
    for generation in (1, 2)
}
"""What the vendor's method needs and ours does without; signatures show it as the vendor has it."""
_SHOWN_BY_NAME = {("load_rknn", 2): frozenset({"load_model_in_npu"})}
"""What only V1.1.0 has by position."""


def signature_of(method: str, generation: int) -> Signature:
    """The signature of a method of ``RKNN`` as the vendor's class of a generation has it.

    What other versions of the vendor's code have, and what is ours, stands behind it by keyword.
    """
    key = method, generation
    needed, by_name = _SHOWN_NEEDED.get(key, ()), _SHOWN_BY_NAME.get(key, ())

    def shown(name: str, default: Any, kind: Any) -> Parameter:
        shown_default = Parameter.empty if default is NEEDED or name in needed else default
        return Parameter(name, kind, default=shown_default)

    order = {n: d for n, d in POSITIONAL[key].items() if n not in by_name}
    rest = {**{n: POSITIONAL[key][n] for n in by_name}, **KEYWORDS.get(key, {})}
    return Signature(
        [
            Parameter("self", Parameter.POSITIONAL_OR_KEYWORD),
            *(shown(n, d, Parameter.POSITIONAL_OR_KEYWORD) for n, d in order.items()),
            *(shown(n, d, Parameter.KEYWORD_ONLY) for n, d in rest.items() if n not in order),
        ]
    )


class _OfGeneration:
    """A method whose signature is that of the generation of its object; of the class that of 2."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self._functions = {number: self._signed(function, name, number) for number in (1, 2)}
        self.__doc__ = function.__doc__

    @staticmethod
    def _signed(function: Callable[..., Any], name: str, generation: int) -> Callable[..., Any]:
        @wraps(function)
        def method(*args: Any, **keywords: Any) -> Any:
            return function(*args, **keywords)

        method.__signature__ = signature_of(name, generation)  # type: ignore[attr-defined]
        return method

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self._functions[2]
        return MethodType(self._functions[instance.generation], instance)


def with_signatures(cls: type[Class]) -> type[Class]:
    """Give the methods of a class with ``generation`` the vendor's signatures: for ``help``,
    ``inspect.signature`` and completion.
    """
    for name in {method for method, _ in POSITIONAL}:
        setattr(cls, name, _OfGeneration(vars(cls)[name], name))
    return cls


def _order(method: str, generation: int, args: Sequence[Any]) -> tuple[Sequence[str], Parameters]:
    """Names by position, and defaults that differ with that order.

    ``config`` of generation 2 has three orders that the types of the first arguments tell apart:
    V1.1.0 begins with a number, the manual V2.3.0 has yes or no in the third place, the vendor's
    code a text. ``load_caffe`` of V1.1.0 has the proto, one of two words, in the second place.
    """
    if (method, generation) == ("config", 2):
        if args and isinstance(args[0], int):
            return _CONFIG_2_V110, {
                "quantized_dtype": "asymmetric_quantized-8",
                "quantized_method": "layer",
            }
        third = args[2] if len(args) > 2 else None
        if isinstance(third, bool | list | tuple):
            return _CONFIG_2_MANUAL, {}
    if (method, generation) == ("load_caffe", 2) and args[1:2] in (("caffe",), ("lstm_caffe",)):
        return _CAFFE_V110, {}
    return tuple(POSITIONAL[method, generation]), {}


def bind(method: str, generation: int, args: Sequence[Any], keywords: Parameters) -> Parameters:
    """Parameter name -> value, defaults filled in.

    Raises:
        UsageError: too many arguments, one twice, an unknown one, or a required one missing.
    """
    order, defaults = _order(method, generation, args)
    known = {**POSITIONAL[method, generation], **KEYWORDS.get((method, generation), {})}
    known.update(defaults)
    if len(args) > len(order):
        raise UsageError(
            f"{method} takes {len(order)} arguments by position, {len(args)} were given.",
            cause=f"The order of generation {generation} is {', '.join(order)}.",
            remedy="Give the others by name.",
        )
    passed = dict(zip(order, args, strict=False))
    for name, value in keywords.items():
        if name not in known:
            raise UsageError(
                f"{method} of generation {generation} has no argument {name}.",
                remedy=did_you_mean(name, known) or f"It has {', '.join(known)}.",
            )
        if name in passed:
            raise UsageError(f"{method} got {name} twice, by position and by name.")
        passed[name] = value
    bound = {**known, **passed}
    missing = [name for name, value in bound.items() if value is NEEDED]
    if missing:
        raise UsageError(f"{method} needs {', '.join(missing)}.", remedy="Give it.")
    return bound


def passed_names(
    method: str, generation: int, args: Sequence[Any], keywords: Parameters
) -> frozenset[str]:
    """The parameters that a call names itself, by position or keyword."""
    order, _ = _order(method, generation, args)
    return frozenset((*order[: len(args)], *keywords))
