"""Write the tables of ``docs/api.md``: each method and argument of the vendor's Python API.

Usage: ``python scripts/make_api_tables.py``. Names and defaults come from
``engine.api.signatures`` and the classes; what an argument does here from ``engine.options`` and
the lists below. A test holds the page to the code, and the code to the manuals' lists.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts.make_option_tables import _cell, _where
from scripts.pages import Part, table, write

MANUAL = "as the manual"
KEPT = "kept for the vendor's compiler, with a warning"

RETURNS: Mapping[str, str] = {
    "RKNN": "",
    "release": "nothing",
    "config": "nothing; -1 after an error",
    "inference": "a list of float32 arrays; None after an error",
    "eval_perf": "generation 1: a dictionary; 2: text",
    "eval_memory": "a dictionary, the keys of the generation's manual",
    "get_sdk_version": "text",
    "list_devices": "two lists, of adb and ntb",
    "list_support_target_platform": "a dictionary; None without a model",
    "register_op": "nothing",
}
"""Methods that return something else than 0 or -1."""

METHODS: Mapping[str, str] = {
    "RKNN": MANUAL + "; errors, warnings and with `verbose` details go to standard error",
    "release": MANUAL,
    "config": MANUAL + "; a refused call is told, and `build` refuses until it is corrected",
    "load_keras": "refused: a Keras file holds code; says how to convert it to TFLite",
    "load_mxnet": MANUAL + ", in generation 2 too",
    "build": MANUAL,
    "export_rknn": "writes a container of ours, or with the compiler `rockchip` (below) what the "
    "NPU runs",
    "load_rknn": MANUAL + "; ours: containers of ours too, which are simulated",
    "init_runtime": MANUAL + "; without a target the simulator is ours",
    "inference": MANUAL,
    "eval_perf": MANUAL + " on a board; ours: estimated without one",
    "eval_memory": MANUAL + " on a board; ours: estimated without one",
    "accuracy_analysis": MANUAL,
    "hybrid_quantization_step1": MANUAL,
    "hybrid_quantization_step2": MANUAL,
    "get_sdk_version": MANUAL,
    "list_devices": MANUAL,
    "list_support_target_platform": MANUAL + "; also for generation 2",
    "register_op": MANUAL + "; the operator is opaque, see [custom operators](custom-operators.md)",
    "reg_custom_op": MANUAL + "; also for generation 1",
    "export_rknn_sync_model": MANUAL + ", through the vendor's toolkit of generation 1; ours: "
    "containers of ours are cut here ([segments](deploy.md#segments))",
    "export_rknn_precompile_model": MANUAL + ", through the vendor's toolkit of generation 1 and a "
    "board ([precompiled models](deploy.md#precompiled-models))",
    "export_encrypted_rknn_model": MANUAL + ", through toolkit 2; ours: containers of ours with a "
    "key ([encryption](deploy.md#encryption))",
}
"""Methods without a line here are as the manual, or come later."""

_BOARD = "on a board; in the simulator a warning that it has no effect"
ARGUMENTS: Mapping[tuple[str, str], str] = {
    ("RKNN", "verbose"): MANUAL + "; `'Debug'` is the same as True",
    ("RKNN", "verbose_file"): MANUAL + ": with `verbose` only",
    ("RKNN", "generation"): "ours",
    ("RKNN", "compiler"): "ours",
    (
        "export_rknn",
        "accept_difference",
    ): "ours: a model that computes something else is written too",
    ("config", "custom_string"): MANUAL + "; it is in the container too",
    ("config", "target_platform"): MANUAL + "; None: in generation 1 rk1808",
    ("load_rknn", "load_model_in_npu"): MANUAL + ", of generation 1; a board has to be the target",
    ("load_rknn", "key_file"): "ours",
    ("build", "pre_compile"): MANUAL + ", through the vendor's toolkit of generation 1; our build "
    "of the same is simulated",
    ("hybrid_quantization_step2", "pre_compile"): MANUAL + ", through the vendor's toolkit of "
    "generation 1, from files of its own step 1",
    ("export_encrypted_rknn_model", "key_file"): "ours",
    ("init_runtime", "target"): MANUAL,
    ("init_runtime", "device_id"): MANUAL + "; ours: `ssh:USER@HOST` and `local`",
    ("init_runtime", "perf_debug"): "on a board; without one the estimate of generation 1 has uids",
    ("init_runtime", "eval_mem"): _BOARD,
    ("init_runtime", "async_mode"): _BOARD,
    ("init_runtime", "core_mask"): "on a board; without one it counts in estimates",
    ("init_runtime", "fallback_prior_device"): "a warning: the C API has no place for it",
    ("init_runtime", "target_sub_class"): "a warning: no board here has one",
    ("init_runtime", "rknn2precompile"): "see `export_rknn_precompile_model`",
    ("init_runtime", "arithmetic"): "ours: of the simulator, `integer` or `reference`, which is "
    "that of the vendor's simulator ([two arithmetics](accuracy.md#two-arithmetics))",
    ("inference", "data_type"): MANUAL + "; what would lose values is refused",
    ("inference", "get_frame_id"): "accepted; outputs are returned without a number",
    ("eval_perf", "inputs"): MANUAL + "; None: zeros",
    ("eval_perf", "loop_cnt"): MANUAL + "; None: ten",
    ("eval_perf", "fix_freq"): MANUAL + "; the clocks are restored afterwards",
    ("accuracy_analysis", "dump_file_type"): "`tensor` and `npy`: both are written in any case",
    ("accuracy_analysis", "compiled"): "ours: the model of `rknntui export --layers`",
    ("accuracy_analysis", "output_dir"): MANUAL + "; None: `./snapshot`",
    ("codegen", "language"): "ours: `cpp`, as the vendor's, or `python`",
    ("codegen", "task"): "ours: what the model is, for the post-processing",
    ("codegen", "chip"): "ours: another than `target_platform`",
    ("codegen", "model"): "ours: a compiled model that the project takes",
    ("build", "rknn_batch_size"): MANUAL + "; -1 of later toolkits: unchanged",
}
"""Arguments that are no option of a recipe, and not simply as the manual."""

ORDER = (
    "RKNN",
    "config",
    "load_caffe",
    "load_tensorflow",
    "load_tflite",
    "load_onnx",
    "load_darknet",
    "load_pytorch",
    "load_mxnet",
    "load_keras",
    "build",
    "export_rknn",
    "load_rknn",
    "init_runtime",
    "inference",
    "eval_perf",
    "eval_memory",
    "get_sdk_version",
    "hybrid_quantization_step1",
    "hybrid_quantization_step2",
    "accuracy_analysis",
    "list_devices",
    "export_rknn_sync_model",
    "export_rknn_precompile_model",
    "export_encrypted_rknn_model",
    "register_op",
    "reg_custom_op",
    "list_support_target_platform",
    "codegen",
    "release",
)
"""In the manuals' order."""

_ONLY: Mapping[str, tuple[int, ...]] = {
    "load_keras": (1,),
    "export_rknn_sync_model": (1,),
    "export_rknn_precompile_model": (1,),
    "register_op": (1,),
    "list_support_target_platform": (1,),
    "reg_custom_op": (2,),
    "export_encrypted_rknn_model": (1, 2),
    "codegen": (2,),
}
"""Methods of a class whose manuals do not all have them -> generations."""

NAMED: Mapping[str, Mapping[str, Any]] = {
    "export_rknn_sync_model": {"input_model": None, "sync_uids": None, "output_model": None},
    "export_rknn_precompile_model": {"export_path": None},
    "export_encrypted_rknn_model": {
        "input_model": inspect.Parameter.empty,
        "output_model": None,
        "crypt_level": 1,
        "key_file": None,
    },
    "codegen": {"output_path": inspect.Parameter.empty, "inputs": None, "overwrite": False},
    "load_keras": {"model": inspect.Parameter.empty, "convert_engine": "Keras"},
}
"""Arguments of methods that take any, as the manuals and the vendor's code name them."""


def parameters() -> dict[str, dict[str, dict[int, Any]]]:
    """Method -> argument -> generation -> default; the class itself is ``RKNN``."""
    from engine.api import RKNN
    from engine.api.signatures import KEYWORDS, POSITIONAL

    methods: dict[str, dict[str, dict[int, Any]]] = {name: {} for name in ORDER}
    for kind in (POSITIONAL, KEYWORDS):
        for (method, generation), defaults in kind.items():
            rows = methods.setdefault(method, {})
            for name, default in defaults.items():
                rows.setdefault(name, {})[generation] = default
    for method in methods:
        if methods[method]:
            continue
        if method in NAMED:
            defaults = NAMED[method]
        else:
            call = RKNN.__init__ if method == "RKNN" else getattr(RKNN, method)
            defaults = {
                name: parameter.default
                for name, parameter in inspect.signature(call).parameters.items()
                if name != "self" and parameter.kind is not inspect.Parameter.VAR_KEYWORD
            }
        for name, default in defaults.items():
            methods[method][name] = dict.fromkeys(_ONLY.get(method, (1, 2)), default)
    return methods


def _later() -> frozenset[str]:
    from engine.api import rknn

    return frozenset(getattr(rknn, "_LATER", {}))


def _default(default: Any) -> str:
    from engine.api.signatures import NEEDED

    needed = default is NEEDED or default is inspect.Parameter.empty
    return "required" if needed else _cell(default)


def _status(method: str, argument: str) -> str:
    if method in _later():
        return "comes later: -1, and says so"
    if (method, argument) in ARGUMENTS:
        return ARGUMENTS[method, argument]
    if method in ("config", "build") or (method.startswith("load_") and method != "load_rknn"):
        if method == "load_keras":
            return METHODS[method]
        where, what = _where(argument)
        ours = what.startswith("(ours)")
        if where == "refused":
            return f"refused: {what}"
        if where == "compiler":
            return what if "only a warning" in what else KEPT
        return "ours" if ours else MANUAL
    return MANUAL


def api_table() -> str:
    """A row for each method and each of its arguments."""
    rows = []
    for method, arguments in parameters().items():
        returns = RETURNS.get(method, "0 or -1")
        status = "comes later: -1, and says so" if method in _later() else None
        words = status or METHODS.get(method, MANUAL)
        generations = sorted({g for a in arguments.values() for g in a}) or [1, 2]
        of = ", ".join(map(str, generations))
        rows.append((f"**`{method}`**", "", of, f"returns {returns}" if returns else "", words))
        for name, defaults in arguments.items():
            shown = {g: _default(defaults[g]) for g in sorted(defaults)}
            one = len(set(shown.values())) == 1
            text = (
                next(iter(shown.values()))
                if one
                else ", ".join(f"{value} ({g})" for g, value in shown.items())
            )
            of = ", ".join(map(str, shown))
            rows.append((f"`{method}`", f"`{name}`", of, text, _status(method, name)))
    return "\n".join(table(("method", "argument", "generation", "default", "here"), rows))


def other_table() -> str:
    """A row for each method that only the vendor's code has."""
    from engine.api.later_toolkits import LATER_METHODS

    rows = ((f"`{name}`", f"-1, and says: {remedy}") for name, remedy in LATER_METHODS.items())
    return "\n".join(table(("method", "here"), rows))


def lite_table() -> str:
    """A row for each method of ``RKNNLite``."""
    from engine.api.lite import RKNNLite

    rows = []
    for name, call in vars(RKNNLite).items():
        if callable(call) and (not name.startswith("_") or name == "__init__"):
            arguments = ", ".join(
                parameter.name
                if parameter.default is inspect.Parameter.empty
                else f"{parameter.name}={parameter.default!r}"
                for parameter in inspect.signature(call).parameters.values()
                if parameter.name != "self" and parameter.kind is not parameter.VAR_KEYWORD
            )
            shown = "RKNNLite" if name == "__init__" else name
            what = (call.__doc__ or "As of RKNN's constructor.").partition("\n")[0]
            rows.append((f"`{shown}({arguments})`", what))
    return "\n".join(table(("method", "what"), rows))


PARTS = (
    Part("api.md", "api", "make_api_tables", api_table),
    Part("api.md", "other methods", "make_api_tables", other_table),
    Part("api.md", "RKNNLite", "make_api_tables", lite_table),
)

if __name__ == "__main__":
    write(PARTS)
