"""``RKNNLite`` of ``rknnlite.api``: compiled models on the board that a script runs on.

Methods and defaults: the vendor's user guide and examples of RKNN-Toolkit-Lite2 (and of
RKNN-Toolkit-Lite for generation 1). It stands on the same agent as every board
(:mod:`engine.devices`), and needs the vendor's runtime library there.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from engine.api.log import returns_status
from engine.api.rknn import RKNN
from engine.base.errors import DeviceError


def _own_chip() -> str:
    """The chip of the machine that this runs on.

    Raises:
        DeviceError: it is no board with an NPU that is known.
    """
    from engine.devices.address import Address
    from engine.devices.probe.identify import identify
    from engine.devices.transports import reach

    board = reach(Address("local"))
    try:
        identity = identify(board)
    finally:
        board.close()
    if not identity.chip:
        raise DeviceError(
            "This machine is no board with an NPU that is known.",
            cause="Without a target a model runs on the machine itself.",
            remedy="Run the script on the board, or name one in reach: init_runtime("
            "target='rk3588', device_id=...).",
        )
    return identity.chip


class RKNNLite:
    """Run a compiled model. Methods return 0, or -1 after an error that is logged.

    Args:
        verbose: log details too.
        verbose_file: with ``verbose``, also log to this file.

    Raises:
        OutputError: ``verbose_file`` cannot be written.
    """

    NPU_CORE_AUTO: ClassVar[int] = RKNN.NPU_CORE_AUTO
    NPU_CORE_0: ClassVar[int] = RKNN.NPU_CORE_0
    NPU_CORE_1: ClassVar[int] = RKNN.NPU_CORE_1
    NPU_CORE_2: ClassVar[int] = RKNN.NPU_CORE_2
    NPU_CORE_0_1: ClassVar[int] = RKNN.NPU_CORE_0_1
    NPU_CORE_0_1_2: ClassVar[int] = RKNN.NPU_CORE_0_1_2
    NPU_CORE_ALL: ClassVar[int] = RKNN.NPU_CORE_ALL

    def __init__(self, verbose: bool = False, verbose_file: str | None = None) -> None:
        self._rknn = RKNN(verbose, verbose_file, generation=2)
        self._log = self._rknn._log  # one log for both

    def load_rknn(self, path: Any) -> int:
        """Load a compiled model."""
        return self._rknn.load_rknn(path)

    @returns_status(-1)
    def init_runtime(
        self,
        target: Any = None,
        device_id: Any = None,
        async_mode: bool = False,
        core_mask: int = NPU_CORE_AUTO,
        **keywords: Any,
    ) -> int:
        """Load the model on the NPU.

        Args:
            target: None: this machine is the board. A chip: a board in reach, as with ``RKNN``.
            device_id: which board, where there are several.
            async_mode: a call of ``inference`` returns the outputs of the call before.
            core_mask: the cores of an RK3588 or RK3576.
            **keywords: further ones of ``RKNN.init_runtime``.
        """
        if target is None:
            target, device_id = _own_chip(), "local"
        return self._rknn.init_runtime(
            target=target,
            device_id=device_id,
            async_mode=async_mode,
            core_mask=core_mask,
            **keywords,
        )

    def inference(
        self,
        inputs: Any,
        data_type: Any = None,
        data_format: Any = None,
        inputs_pass_through: Any = None,
        get_frame_id: Any = False,
    ) -> list[np.ndarray] | None:
        """Run inputs; a list of float32 arrays, or None after an error.

        ``data_format``: 'nhwc' (as None) or 'nchw', or a list with one per input.
        """
        return self._rknn.inference(
            inputs=inputs,
            data_type=data_type,
            data_format=data_format,
            inputs_pass_through=inputs_pass_through,
            get_frame_id=get_frame_id,
        )

    def eval_perf(self, **keywords: Any) -> Any:
        """As of ``RKNN``: measured on this board."""
        return self._rknn.eval_perf(**keywords)

    def eval_memory(self, **keywords: Any) -> Any:
        """As of ``RKNN``: measured on this board."""
        return self._rknn.eval_memory(**keywords)

    def get_sdk_version(self) -> str | None:
        """Versions of the runtime library and the driver."""
        return self._rknn.get_sdk_version()

    def list_devices(self) -> tuple[list[str], list[str]]:
        """Boards in reach, by adb and by ntb."""
        return self._rknn.list_devices()

    def list_support_target_platform(self, rknn_model: Any = None) -> Any:
        """Chips that a compiled model can run on."""
        return self._rknn.list_support_target_platform(rknn_model)

    def release(self) -> None:
        """Free the model."""
        self._rknn.release()
