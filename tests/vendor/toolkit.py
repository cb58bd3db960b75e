"""Models that the vendor's toolkit has built, by name, in one process of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from engine.toolkit.toolkit import RemoteRKNN
from engine.toolkit.toolkit import Toolkit as Bridge
from engine.wire.vendor import ToolkitEnvironment

__all__ = ["Toolkit"]


class Toolkit:
    """One process of the toolkit; models stay built under the names that they were given."""

    def __init__(self, python: Path, folder: Path) -> None:
        place = str(python.parents[1])
        environment = ToolkitEnvironment(name="toolkit2", folder=place, python=str(python))
        self._bridge = Bridge(environment, folder)
        self._models: dict[str, RemoteRKNN] = {}
        self._simulated: set[str] = set()
        self._count = 0

    def close(self) -> None:
        """End the process."""
        self._bridge.close()

    def _folder(self) -> Path:
        """A new folder for files, which the toolkit can read and write."""
        self._count += 1
        made = self._bridge.work / f"{self._count:03d}"
        made.mkdir()
        return made

    def build(
        self,
        name: str,
        model: Path,
        config: dict[str, Any],
        calibration: np.ndarray | None = None,
        *,
        verbose: bool = False,
    ) -> str:
        """Load and build a model.

        Args:
            name: to ask for it later.
            model: ONNX file.
            config: of ``RKNN.config``.
            calibration: pixels (N, C, H, W) uint8, for quantization by the toolkit; None keeps the
                model's own.
            verbose: whether the compiler prints its tables.

        Returns:
            What the toolkit printed.
        """
        folder = self._folder()
        path = folder / "model.onnx"
        path.write_bytes(model.read_bytes())
        options: dict[str, Any] = {"do_quantization": calibration is not None}
        if calibration is not None:
            options["dataset"] = folder / "dataset.txt"
            names = [str(folder / f"{number}.npy") for number in range(len(calibration))]
            for file, sample in zip(names, calibration, strict=True):
                np.save(file, sample[None])
            options["dataset"].write_text("".join(f"{file}\n" for file in names))
        mark = self._bridge.mark
        rknn = self._models[name] = self._bridge.rknn(verbose=verbose)
        rknn.do("config", **{"target_platform": "rk3588"} | config)
        rknn.do("load_onnx", model=path)
        rknn.do("build", **options)
        return self._bridge.since(mark)

    def release(self, name: str) -> None:
        """Forget a model that was built."""
        self._models.pop(name).release()
        self._simulated.discard(name)

    def export(self, name: str) -> Path:
        """The compiled model, as a file."""
        path = self._folder() / "model.rknn"
        self._models[name].do("export_rknn", path)
        return path

    def infer(self, name: str, samples: Sequence[Sequence[np.ndarray]]) -> list[list[np.ndarray]]:
        """Outputs of the toolkit's simulator for every sample (a list of NCHW inputs each)."""
        rknn = self._models[name]
        if name not in self._simulated:
            rknn.do("init_runtime")
            self._simulated.add(name)
        return [
            list(rknn.call("inference", inputs=list(sample), data_format=["nchw"] * len(sample)))
            for sample in samples
        ]

    def analyse(self, name: str, pixels: np.ndarray) -> Path:
        """The folder of tensors that accuracy_analysis writes for one input (1, C, H, W)."""
        folder = self._folder()
        np.save(folder / "input.npy", pixels)
        words = {"inputs": [str(folder / "input.npy")], "output_dir": str(folder / "snapshot")}
        self._models[name].do("accuracy_analysis", **words)
        return folder / "snapshot" / "simulator" / "npy"
