"""What becomes of a model on its way to a board: segments, precompiled and encrypted models."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.api.log import path_text
from engine.api.signatures import POSITIONAL, Parameters, bind, passed_names
from engine.base.errors import UsageError
from engine.base.events import Reporter
from engine.base.files import atomic_write, missing_error, open_regular
from engine.base.text import sanitize
from engine.facts import chip

if TYPE_CHECKING:
    from engine.toolkit.precompile import BoardConversion, ToolkitCall

_PATHS = frozenset(
    {
        "model", "blobs", "tf_pb", "predef_file", "weight", "symbol", "params", "op_path",
        "model_input", "data_input", "model_quantization_cfg",
    }
)  # fmt: skip
"""Arguments that are paths; the toolkit works in a folder of its own."""
_LATER = ("mean_values", "std_values", "quantized_algorithm", "size_with_batch")
"""Arguments of later toolkits of generation 1, beside those of the manual."""
_BOARD = (
    "With a board, build without pre_compile, then load_rknn, init_runtime(target=..., "
    "rknn2precompile=True) and export_rknn_precompile_model make such a model, also through that "
    "toolkit."
)


class Deployment:
    """The calls of a script that the vendor's toolkit of generation 1 has to hear again.

    Args:
        log: takes what a user should know.
        reporter: told what the toolkit prints.

    Attributes:
        model: the precompiled model of the last build, or None.
    """

    def __init__(self, log: logging.Logger, reporter: Reporter) -> None:
        self._log, self._reporter = log, reporter
        self._calls: dict[str, ToolkitCall] = {}
        self._operators: list[ToolkitCall] = []
        self._conversion: BoardConversion | None = None
        self.model: bytes | None = None

    def note(self, method: str, generation: int, args: Sequence[Any], keywords: Parameters) -> None:
        """Remember ``config``, ``register_op`` or a load method."""
        if generation != 1:
            return
        call = _call(method, args, keywords)
        if method == "register_op":
            self._operators.append(call)
        else:
            self._calls["config" if method == "config" else "load"] = call

    def forget_model(self) -> None:
        """Another model is loaded or built."""
        self.model = None
        self.close()

    def require(self, given: Parameters, generation: int) -> bool:
        """Whether ``pre_compile`` is asked for, and can be had.

        Raises:
            UsageError: it is not of this generation.
            ToolkitError: there is no toolkit of generation 1.
        """
        if not given.get("pre_compile"):
            return False
        if generation != 1:
            raise UsageError(
                "pre_compile is of generation 1.",
                cause="Models of generation 2 are always compiled for their chip.",
                remedy="Leave it out, or use RKNN(generation=1).",
            )
        from engine.toolkit.precompile import require_toolkit1

        require_toolkit1("pre_compile", _BOARD)
        return True

    def build(self, args: Sequence[Any], keywords: Parameters) -> None:
        """Have the toolkit build what was loaded, precompiled.

        Raises:
            ToolkitError, CompilerError: it is not there, or failed.
        """
        load = self._calls.get("load")
        if load is None:
            raise UsageError("No model is loaded.", remedy="Call a load method first.")
        config = self._calls.get("config")
        self._make([config, *self._operators, load], "build", args, keywords)

    def step2(self, args: Sequence[Any], keywords: Parameters) -> None:
        """Have the toolkit build from the files of its own hybrid step 1, precompiled.

        Raises:
            UsageError: the files are ours, which the toolkit does not read.
            ToolkitError, CompilerError: it is not there, or failed.
        """
        arguments = bind("hybrid_quantization_step2", 1, args, keywords)
        data = Path(path_text(arguments["data_input"], "data_input"))
        try:
            with open_regular(data) as stream:
                head = stream.read(2)
        except OSError as error:
            raise missing_error(data) from error
        if head == b"PK":
            raise UsageError(
                f"{sanitize(data.name, 200)} was written by hybrid step 1 of this program, which "
                "the vendor's toolkit cannot read.",
                cause="pre_compile is its compiler's work, from the files of its own step 1.",
                remedy="Leave pre_compile at False to build here, or run step 1 with the vendor's "
                "toolkit.",
            )
        self._make(
            [self._calls.get("config"), *self._operators],
            "hybrid_quantization_step2",
            args,
            keywords,
        )

    def _make(
        self,
        before: Sequence[ToolkitCall | None],
        method: str,
        args: Sequence[Any],
        keywords: Parameters,
    ) -> None:
        from engine.base.leftovers import owned_folder
        from engine.toolkit.precompile import ToolkitCall, precompiled, require_toolkit1

        environment = require_toolkit1("pre_compile", _BOARD)
        last = _call(method, args, keywords)
        with owned_folder("toolkit") as folder:
            words = dict(last.keywords)
            dataset = words.get("dataset") or ("dataset.txt" if method == "build" else None)
            if dataset is not None and words.get("do_quantization", True):
                words["dataset"] = str(_absolute_list(Path(dataset), folder / "dataset.txt"))
            calls = [call for call in before if call is not None]
            self.model = precompiled(
                [*calls, ToolkitCall(method, words)], environment, self._reporter
            )
        self._log.warning(
            "%s: the precompiled model is the vendor's work, its quantization too; what is "
            "simulated is the build of this program.",
            method,
        )

    def export(self, path: Path) -> bool:
        """Write the precompiled model, where there is one; whether there was."""
        if self.model is None:
            return False
        atomic_write(path, self.model, overwrite=True)
        return True

    def convert(self, model: object, given: Parameters) -> None:
        """Get a board ready to precompile what ``load_rknn`` loaded (``rknn2precompile``).

        Raises:
            UsageError: there is no such model.
            ToolkitError, CompilerError: the toolkit is not there, or does not reach the board.
        """
        from engine.toolkit.precompile import BoardConversion, require_toolkit1

        self.close()
        if not isinstance(model, Path):
            raise UsageError(
                "There is no model that a board could precompile.",
                cause="It makes one of a model of the vendor, built without pre_compile.",
                remedy="Load it with load_rknn first.",
            )
        environment = require_toolkit1("rknn2precompile", "")
        device = given.get("device_id")
        self._conversion = BoardConversion(
            model,
            str(given["target"]),
            None if device is None else str(device),
            environment,
            self._reporter,
        )

    def export_precompiled(self, export_path: Any) -> None:
        """Write what the board makes of the model.

        Raises:
            UsageError: no board is ready for that; says what it takes.
            CompilerError: the board or the toolkit failed.
        """
        path = Path(path_text(export_path, "export_path"))
        if self._conversion is None:
            raise UsageError(
                "No board is ready to precompile a model.",
                cause="That takes a board of generation 1 and the vendor's toolkit of generation "
                "1, which reaches it.",
                remedy="Call load_rknn, then init_runtime(target='rk1808', rknn2precompile=True). "
                "Without a board, build(pre_compile=True) makes one through that toolkit.",
            )
        self._conversion.export(path)

    def close(self) -> None:
        """Let a board go."""
        conversion, self._conversion = self._conversion, None
        if conversion is not None:
            conversion.close()


def converts(given: Parameters) -> bool:
    """Whether ``init_runtime`` is to get a board ready to precompile: those of generation 1 do."""
    if given["target"] is None or not given["rknn2precompile"]:
        return False
    facts = chip(str(given["target"]).lower())
    return facts is not None and facts.generation == 1


def _call(method: str, args: Sequence[Any], keywords: Parameters) -> ToolkitCall:
    """A call as the toolkit is to hear it: what was given, by name, with absolute paths."""
    from engine.toolkit.precompile import ToolkitCall

    if method == "register_op":
        return ToolkitCall(method, {"op_path": _absolute(args[0] if args else keywords["op_path"])})
    arguments = bind(method, 1, args, keywords)
    named = passed_names(method, 1, args, keywords)
    known = {*POSITIONAL[method, 1], *_LATER}
    words = {
        name: _absolute(arguments[name])
        if name in _PATHS and arguments[name] is not None
        else arguments[name]
        for name in arguments
        if name in named and name in known
    }
    return ToolkitCall(method, words)


def _absolute(path: Any) -> str:
    return str(Path(path_text(path, "a path")).absolute())


def _absolute_list(path: Path, copy: Path) -> Path:
    """A dataset list whose paths do not depend on where it lies."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"The dataset {sanitize(str(path), 200)} cannot be read: {error}.",
            remedy="Give a text file with the path of a sample in each line.",
        ) from error
    folder = path.absolute().parent
    rows = [" ".join(str(folder / one) for one in line.split()) for line in lines]
    copy.write_text("".join(f"{line}\n" for line in rows if line), "utf-8")
    return copy


def export_sync_model(
    input_model: Any, sync_uids: Any, output_model: Any, reporter: Reporter
) -> str:
    """Cut a model into segments; what to tell of it.

    Args:
        input_model: path of a container of ours or of a model of generation 1.
        sync_uids: uids of the layers that a segment ends after, a number or a list of them.
        output_model: path of the file to make; None: into ``input_model``.
        reporter: told what the toolkit prints.

    Raises:
        EngineError: there is no such layer; the model cannot be read or written.
    """
    from engine.devices.board.model_file import model_file
    from engine.export.segments import cut_container, cut_vendor_model, segments_of
    from engine.pipeline.runner import load_packed

    path = Path(path_text(input_model, "input_model"))
    output = path if output_model is None else Path(path_text(output_model, "output_model"))
    uids = _uids(sync_uids)
    if model_file(path).ours:
        container = cut_container(load_packed(path), uids, output, overwrite=True)
        return f"{len(segments_of(container)) + 1} segments, simulated one after another."
    cut = cut_vendor_model(path, uids, output, overwrite=True, reporter=reporter)
    return f"Sync layers were inserted by {cut.toolkit}."


def _uids(uids: Any) -> list[int]:
    if isinstance(uids, int | np.integer) and not isinstance(uids, bool):
        return [int(uids)]
    if isinstance(uids, list | tuple | np.ndarray) and len(uids):
        numbers = [one for one in uids if isinstance(one, int | np.integer)]
        if len(numbers) == len(uids) and not any(isinstance(one, bool) for one in uids):
            return [int(one) for one in numbers]
    raise UsageError(
        f"sync_uids is {sanitize(repr(uids), 80)}.",
        cause="It is the list of uids of the layers that a segment ends after.",
        remedy="Take them from the Uid column of eval_perf, with perf_debug=True.",
    )


def export_encrypted_model(
    input_model: Any,
    output_model: Any,
    crypt_level: Any,
    key_file: Any,
    log: logging.Logger,
    reporter: Reporter,
) -> None:
    """Encrypt a container of ours, or a compiled model by the vendor's toolkit.

    Args:
        input_model, output_model, crypt_level: as in the manual.
        key_file: of a container: the file with its key; None: that of the environment.
        log: takes what a user should know.
        reporter: told what the toolkit prints.

    Raises:
        EngineError: the model or the key cannot be used, or the file cannot be written.
    """
    from engine.container.keys import key_of_file
    from engine.export.encryption import encrypt_model

    path = Path(path_text(input_model, "input_model"))
    output = None if output_model is None else Path(path_text(output_model, "output_model"))
    key = None if key_file is None else key_of_file(Path(path_text(key_file, "key_file")))
    level = crypt_level
    if isinstance(level, bool) or level not in (1, 2, 3):  # as the vendor's does
        log.warning(
            "export_encrypted_rknn_model: crypt_level %s is not 1, 2 or 3; it is taken as 1.",
            sanitize(repr(crypt_level), 40),
        )
        level = 1
    encrypted = encrypt_model(path, output, int(level), key=key, overwrite=True, reporter=reporter)
    if output is None:
        log.warning("export_encrypted_rknn_model: the output_model is %s.", encrypted.path)
    for finding in encrypted.findings:
        log.warning("export_encrypted_rknn_model: %s %s", finding.what, finding.remedy)
    named = ", ".join(copy.name for copy in encrypted.stays)
    if named:
        log.info("export_encrypted_rknn_model: the plain model stays in %s.", named)


def model_on_board(path: str, target: Any, device_id: Any) -> bytes:
    """A model that lies on a board (``load_model_in_npu``), to be run there.

    Args:
        path: of the board.
        target, device_id: as of ``init_runtime``.

    Raises:
        UsageError: no target is given: no simulator has it.
        DeviceError: the board is not there, or has no such file.
    """
    from engine.base.leftovers import owned_folder
    from engine.devices.connected import open_board

    if target is None:
        raise UsageError(
            f"The model {sanitize(path, 200)} is on a board, and no board is named.",
            cause="load_rknn was called with load_model_in_npu=True.",
            remedy="Call init_runtime with the target of that board.",
        )
    board, _ = open_board(str(target), device_id)
    try:
        with owned_folder("board") as folder:
            board.pull(path, folder / "model.rknn", limit=2 << 30)
            return (folder / "model.rknn").read_bytes()
    finally:
        board.close()
