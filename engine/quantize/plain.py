"""Does a file that leaves the program run where the program's own settings are not?"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from engine.base.errors import QuantizationError
from engine.base.text import sanitize
from engine.graph.execute.runtime import RUNTIME_ERRORS, ort

# Whoever compares an export on a processor without VNNI sets it, for exact sums
_EXACT_SUMS = "session.x64quantprecision"


def require_plain_run(data: bytes, feeds: Mapping[str, np.ndarray] | None = None) -> None:
    """Open a serialised model in ONNX Runtime as anybody would, and run it once.

    Twice: with its defaults, and with the setting for exact integer sums.

    Args:
        data: the model, without custom operators.
        feeds: an array for every input; None: it is opened only.

    Raises:
        QuantizationError: ONNX Runtime does not take it, or does not run it.
    """
    for entry in (None, _EXACT_SUMS):
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        if entry is not None:
            options.add_session_config_entry(entry, "1")
        try:
            session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
            if feeds is not None and entry is None:
                session.run(None, dict(feeds))
        except RUNTIME_ERRORS as error:
            reason = str(error).rsplit("Status Message: ", 1)[-1].strip()
            how = "" if entry is None else f" with {entry}"
            raise QuantizationError(
                f"The exported graph does not run in ONNX Runtime{how}: {sanitize(reason, 300)}",
                cause="A mistake of this program: it wrote a graph that other programs refuse.",
                remedy="Export a container instead, or build with a lower optimization level or "
                "other dtypes; and report this with the name of the operator.",
            ) from error
