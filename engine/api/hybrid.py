"""``hybrid_quantization_step1`` and ``step2`` of the vendor's class."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from engine.api.log import path_text
from engine.api.signatures import Parameters
from engine.base.errors import UsageError
from engine.base.events import Reporter
from engine.base.plain import Values
from engine.base.text import sanitize
from engine.report import gain_text, summary_text

if TYPE_CHECKING:
    from engine.graph.ir import CustomOperators
    from engine.pipeline.hybrid_steps import StepTwo
    from engine.pipeline.pipeline import Pipeline


def step1_changes(given: Parameters) -> Values:
    """What the arguments of step 1 change in the recipe."""
    batch = given.get("rknn_batch_size")
    return {
        "do_quantization": True,
        "dataset": path_text(given["dataset"], "dataset"),
        "rknn_batch_size": None if batch == -1 else batch,
    }


_OLD_EXPORT = "torch-jit-export"


def step1_name(pipeline: Pipeline, generation: int) -> str | None:
    """The name of the files of step 1, where it is not that of the model's file.

    Generation 1 names those of an ONNX file after its graph. Known is the one name that its
    examples rely on (``common_function_demos/accuracy_analysis``): ``torchjitexport``, of files
    that PyTorch up to 1.8 exported. All others are named after the file.
    """
    if generation != 1 or pipeline.source.path.suffix.lower() != ".onnx":
        return None
    import onnx

    graph = onnx.load(pipeline.source.path, load_external_data=False).graph
    return _OLD_EXPORT.replace("-", "") if graph.name == _OLD_EXPORT else None


def run_step1(
    pipeline: Pipeline, given: Parameters, log: logging.Logger, name: str | None = None
) -> None:
    """Write the three files into the current folder, as the vendor does.

    Args:
        pipeline: of the loaded model.
        given: the arguments of ``hybrid_quantization_step1``.
        log: takes what was proposed.
        name: of the files; None: as the model's file.

    Raises:
        EngineError: the model cannot be quantized, or a file not be written.
    """
    from engine.pipeline.hybrid_steps import write_step1

    size = given.get("proposal_dataset_size", 1)
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise UsageError(
            f"proposal_dataset_size is {sanitize(repr(size), 40)}; it is a number of samples.",
            remedy="Give 1 or more.",
        )
    pairs = given.get("custom_hybrid")
    if pairs is not None and (isinstance(pairs, str) or not isinstance(pairs, Sequence)):
        raise UsageError(
            "custom_hybrid is a list of pairs.", remedy="Write [[input, output], ...]."
        )
    files, proposal = write_step1(
        pipeline,
        Path.cwd(),
        proposal=bool(given.get("proposal", False)),
        proposal_dataset_size=size,
        custom_hybrid=pairs,
        overwrite=True,  # as the vendor's does
        name=name,
    )
    for row in () if proposal is None else proposal.ranking:
        gain = gain_text(row.gain_db)
        log.info("proposal: %s (%s): %s", sanitize(row.id, 120), row.op, gain)
    log.info("Edit %s, then call hybrid_quantization_step2.", files.config.name)


def run_step2(
    given: Parameters,
    log: logging.Logger,
    reporter: Reporter,
    operators: CustomOperators | None,
) -> StepTwo:
    """Build from the three files.

    Raises:
        EngineError: a file cannot be used, or a stage could not be done.
    """
    from engine.pipeline.hybrid_steps import build_step2

    dataset = given.get("dataset")
    done = build_step2(
        Path(path_text(given["model_input"], "model_input")),
        Path(path_text(given["data_input"], "data_input")),
        Path(path_text(given["model_quantization_cfg"], "model_quantization_cfg")),
        dataset=None if dataset is None else Path(path_text(dataset, "dataset")),
        reporter=reporter,
        operators=operators,
    )
    for row in done.honoured:
        log.info(
            "line %d: %s of %s: asked %s, got %s%s",
            row.line,
            row.kind,
            sanitize(row.layer, 120),
            row.asked,
            row.got,
            "" if row.ok else f" ({row.why})",
        )
    log.info("%s", summary_text(done.result.summary), extra={"plain": True})
    return done
