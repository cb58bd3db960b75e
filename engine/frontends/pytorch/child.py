"""TorchScript to ONNX by torch itself: what runs in the foreign child process.

The module is run on seeded inputs, exported along one route after the other, and each file is run
by ONNX Runtime on the same inputs: the first that agrees is taken, with the numbers beside it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from engine.base.errors import EngineError, SourceModelError, UnsupportedOperatorError
from engine.base.findings import Finding
from engine.base.peers.far import Message
from engine.base.text import sanitize
from engine.frontends.numeric_check import FLOAT_TOLERANCE, compare_outputs, save_reference
from engine.frontends.pytorch.export_strategies import Subject
from engine.frontends.pytorch.inputs import (
    Plan,
    call,
    last_line,
    leaves,
    out_of_memory,
    plan_inputs,
    run,
)
from engine.frontends.pytorch.quantized import (
    DEFAULT_ENGINE,
    all_nodes,
    has_exact_engine,
    is_fake_quantized,
    is_quantized,
    other_engines,
    silence_observers,
    use_engine,
)
from engine.frontends.pytorch.screen import UNTAKEN, refusal_of, screen
from engine.frontends.pytorch.select_strategy import (
    QUANTIZED_TOLERANCE,
    Agreed,
    Expected,
    difference,
    first_that_agrees,
    largest_step,
    to_array,
)

_SAMPLES = 3
_SAMPLES_OF_BRANCHES = 6
_INLINE_BYTES = 1 << 30
_TO_FLOAT32 = (torch.float16, torch.bfloat16, torch.float64)
_STEPS_AT_THE_END = 8.0
_BRANCHES = ("prim::If", "prim::Loop")


def convert(request: Message, out: Path) -> Message:
    """Write ``out`` and the reference beside it.

    Args:
        request: ``model`` (path), ``sizes`` (a list of ints per tensor, or None), ``traced``
            ((shape, dtype) per input that the file was traced with), ``route`` (``auto``,
            ``script`` or ``export``).
        out: the ONNX file to write.

    Returns:
        ``route``, ``samples``, ``error``, ``tolerance``, ``findings`` (as dictionaries),
        ``inputs`` and ``outputs`` (names).

    Raises:
        SourceModelError: torch does not load or run it, the sizes do not fit, or no route gives
            torch's own numbers.
        UnsupportedOperatorError: torch does not know one of its operators.
    """
    path = Path(request["model"])
    findings: list[Finding] = []
    _screen(path)
    module, plan, graph = _planned(path, request, findings)
    _refuse_training(graph)
    quantized = is_quantized(graph) or is_fake_quantized(graph)
    branches = any(node.kind() in _BRANCHES for node in all_nodes(graph))
    count = _SAMPLES_OF_BRANCHES if branches else _SAMPLES
    samples = [plan.sample(seed) for seed in range(count)]
    outputs = [_arrays(run(module, plan.signature, sample)) for sample in samples]
    again = call(module, plan.signature, samples[0])
    _refuse_random(outputs[0], again)
    integers = is_quantized(graph)
    kinds = {"fixable": not quantized, "integers": integers, "samples": count}
    subject = _subject(path, module, plan, again, **kinds)
    expected = Expected(samples, outputs, quantized, other_engines() if integers else ())
    agreed = first_that_agrees(subject, request["route"], out, expected)
    findings += _notes(plan, agreed, quantized, integers)
    save_reference(out, list(zip(map(_arrays, samples), outputs, strict=True)))
    return {
        "route": agreed.route,
        "samples": len(samples),
        "error": agreed.check.error,
        "tolerance": _tolerance(agreed, expected),
        "findings": [finding.to_dict() for finding in findings],
        "inputs": list(subject.inputs),
        "outputs": list(subject.outputs),
    }


def _tolerance(agreed: Agreed, expected: Expected) -> float:
    """How far the finished graph may be from torch, of the largest output.

    ONNX Runtime's fused integers round otherwise than the file as it is written. Where each layer
    is known to be within a step, what many of them make of it at the end says little more.
    """
    if agreed.layers is None:
        return max(FLOAT_TOLERANCE, 2 * agreed.check.error)
    steps = largest_step(expected.outputs) * _STEPS_AT_THE_END
    # behind a softmax no step is seen
    return max(QUANTIZED_TOLERANCE, 4 * agreed.check.error, steps)


def _planned(path: Path, request: Message, findings: list[Finding]) -> tuple[Any, Plan, Any]:
    """The module, how it is fed, and its graph, with the engine for integers that is exact.

    The graph is taken before the module runs: without optimization PyTorch keeps calls of
    submodules as they are from its first run on, and what is in them would not be seen.
    """
    use_engine(DEFAULT_ENGINE)
    module = _load(path, findings)
    graph = _inlined(module)
    _refuse_operators(graph)
    if has_exact_engine() and is_quantized(graph):
        use_engine()
        with contextlib.suppress(SourceModelError):  # it has fewer operators
            module = _load(path, [])
            return module, plan_inputs(module, request["sizes"], request["traced"]), graph
        use_engine(DEFAULT_ENGINE)
    return module, plan_inputs(module, request["sizes"], request["traced"]), graph


def _inlined(module: Any) -> Any:
    """The graph of ``forward`` with the calls of submodules written out."""
    graph = module.forward.graph.copy()
    torch._C._jit_pass_inline(graph)
    return graph


def _screen(path: Path) -> None:
    """Look through the code as PyTorch's own reader of archives finds it, which is what it runs."""
    try:
        reader = torch._C.PyTorchFileReader(str(path))
        records = [(name, reader.get_record_size(name)) for name in reader.get_all_records()]
        screen(path.name, records, lambda name, _: reader.get_record(name))
    except (RuntimeError, ValueError, OSError) as error:
        raise _not_loaded(path, error) from error


def _refuse_operators(graph: Any) -> None:
    """Refuse what the compiled code would run and the list does not have, before it is run.

    What stands in branches that nothing takes was looked at in the text (:func:`_screen`).
    """
    for node in all_nodes(graph):
        why = refusal_of(node.kind(), graph=True)
        if why and node.kind().removeprefix("aten::") not in UNTAKEN:
            raise UnsupportedOperatorError(
                f"The model uses {sanitize(node.kind(), 100)}, which is not taken.",
                cause=f"{why[:1].upper()}{why[1:]}.",
                remedy="Leave it out of the module that is scripted or traced.",
            )


def _load(path: Path, findings: list[Finding]) -> Any:
    """The module in evaluation mode, in floats of 32 bits."""
    try:
        module = torch.jit.load(str(path), map_location="cpu")
    except (RuntimeError, ValueError, OSError, EOFError) as error:
        raise _not_loaded(path, error) from error
    if getattr(module, "training", False):  # a frozen module has no such attribute
        what = "The model was saved in training mode; it was switched to evaluation."
        remedy = "Call model.eval() before it is scripted or traced."
        mode = Finding("pytorch-evaluation-mode", "info", path.name, what, remedy=remedy)
        findings.append(mode)
    if hasattr(module, "training"):
        module.eval()
    silenced = silence_observers(module)
    if silenced:
        what = f"{silenced} observers of fake quantization were on; they were switched off."
        cause = "An observer changes the scales whenever the model runs."
        remedy = "Call model.apply(torch.ao.quantization.disable_observer) before saving."
        off = Finding("pytorch-observers-off", "warning", path.name, what, cause, remedy)
        findings.append(off)
    other = {p.dtype for p in module.parameters()} & set(_TO_FLOAT32)
    if other:
        module.float()
        what = f"Weights of type {_names(other)} were converted to float32."
        cause = "The graph computes in float32, as what is compared with it does."
        findings.append(Finding("pytorch-float32", "info", path.name, what, cause))
    return module


def _names(dtypes: set[torch.dtype]) -> str:
    return " and ".join(sorted(str(dtype).removeprefix("torch.") for dtype in dtypes))


def _not_loaded(path: Path, error: Exception) -> EngineError:
    if (short := out_of_memory(error)) is not None:
        return short
    text = str(error)
    for mark in ("Unknown builtin op: ", "Unknown type name "):
        if mark in text:
            name = sanitize(text.partition(mark)[2].split("\n")[0].strip(" .:'"), 100)
            return UnsupportedOperatorError(
                f"{path.name} uses {name}, which PyTorch itself does not have.",
                cause="It belongs to an extension (nms of torchvision, say) that is not loaded.",
                remedy="Leave that part out of the module that is scripted or traced: end it "
                "before the boxes are selected, say.",
            )
    return SourceModelError(
        f"PyTorch {torch.__version__} cannot load {path.name}: {last_line(error)}",
        cause="The file is damaged, or was written by a PyTorch that is newer or much older.",
        remedy="Save it again with torch.jit.save, by this version of PyTorch if you can.",
    )


def _refuse_training(graph: Any) -> None:
    """Refuse what a trace took over from training mode: random, or dependent on the batch."""
    # operator -> number of its argument that says whether it trains (ATen, native_functions.yaml)
    switches = {"aten::dropout": 2, "aten::dropout_": 2, "aten::feature_dropout": 2,
                "aten::batch_norm": 5}  # fmt: skip
    for node in graph.nodes():  # those of a trace; branches of a script may never be taken
        number = switches.get(node.kind())
        if number is None:
            continue
        source = list(node.inputs())[number].node()
        if source.kind() == "prim::Constant" and source.output().toIValue() is True:
            raise SourceModelError(
                f"The model was traced in training mode: {node.kind()} is active in it.",
                cause="A trace keeps the mode that the network was in.",
                remedy="Call model.eval() before torch.jit.trace, and save it again.",
            )


def _refuse_random(expected: list[np.ndarray], again: Any) -> None:
    """Refuse a module whose second result for the same inputs is not the first one."""
    if not compare_outputs(expected, _arrays([tensor for _, tensor in leaves(again)])).exact:
        raise SourceModelError(
            "The model gives other outputs for the same inputs when it runs again.",
            cause="It draws random numbers, or keeps a state between calls.",
            remedy="Make it a function of its inputs: states as inputs and outputs, no dropout.",
        )


def _subject(path: Path, module: Any, plan: Plan, result: Any, **kinds: Any) -> Subject:
    """What is exported; ``result`` is what the module gives, whose form names the outputs.

    ``kinds`` are the other attributes of a :class:`Subject`.
    """
    paths = tuple(where for where, _ in leaves(result))
    weights = sum(p.numel() * p.element_size() for p in module.parameters())
    inputs = tuple(feed.name for feed in plan.feeds)
    return Subject(
        load=lambda: _load(path, []),
        plan=plan,
        paths=paths,
        inputs=inputs,
        outputs=_output_names(result, paths, set(inputs)),
        large=weights > _INLINE_BYTES,
        **kinds,
    )


def _output_names(result: Any, paths: Sequence[str], taken: set[str]) -> tuple[str, ...]:
    """Keys where the result is a dictionary of tensors, else ``output`` and a number."""
    if isinstance(result, dict) and all(path.count("[") == 1 for path in paths):
        keys = [str(key) for key, value in result.items() if isinstance(value, torch.Tensor)]
    else:
        keys = [f"output{i}" if len(paths) > 1 else "output" for i in range(len(paths))]
    names: list[str] = []
    for key in keys:
        name = sanitize(key, 100) or "output"
        while name in taken:
            name += "_out"
        taken.add(name)
        names.append(name)
    return tuple(names)


def _arrays(tensors: Sequence[torch.Tensor]) -> list[np.ndarray]:
    return [to_array(tensor) for tensor in tensors]


def _notes(plan: Plan, agreed: Agreed, quantized: bool, converted: bool) -> list[Finding]:
    check = agreed.check
    notes = [
        Finding(
            code="batch-added",
            severity="info",
            where=sanitize(feed.name),
            what=f"The size of input {sanitize(feed.name)!r} had no batch; it is "
            f"{list(feed.shape)} now.",
        )
        for feed in plan.feeds
        if feed.batch_added
    ]
    if quantized:
        kind = "integers" if converted else "fake quantization"
        what = f"The model computes in {kind}: its scales are kept as they are."
        remedy = "Build it with do_quantization=False to use them."
        notes.append(Finding("source-quantized", "info", "model", what, remedy=remedy))
    if (quantized and not check.within(FLOAT_TOLERANCE)) or check.flipped:
        what = f"Compared with PyTorch, it {difference(check)}.{_of_layers(agreed)}"
        cause = (
            "Values that lie between two steps are rounded the other way, as they are between "
            "PyTorch's own engines."
        )
        notes.append(Finding("pytorch-not-exact", "warning", "model", what, cause))
    elif check.error > FLOAT_TOLERANCE:
        what = f"It {difference(check)}."
        cause = "ONNX Runtime approximates some functions otherwise, and float32 rounds."
        notes.append(Finding("pytorch-float-noise", "warning", "model", what, cause))
    return notes


def _of_layers(agreed: Agreed) -> str:
    if agreed.layers is None:
        return ""
    share, count = 100 * agreed.layers.apart, agreed.layers.count
    return (
        f" Each of its {count} layers of integers, on PyTorch's own inputs, is within one step "
        f"of it; {share:.2g} % of their values are a step away."
    )
