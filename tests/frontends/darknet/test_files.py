"""Darknet's two files: what is read, what does not fit, what is refused."""

from __future__ import annotations

import contextlib
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.base.errors import EngineError, SourceModelError, UnsupportedOperatorError
from engine.frontends.darknet.files import read_cfg
from engine.frontends.load import find_source, inspect_source, load_source
from engine.frontends.source import LoadOptions
from engine.graph.ir.verify import verify
from tests.frontends.darknet.networks import HEADER, head, run, source
from tests.fuzz.mutate import mutant

CONV = "[convolutional]\nfilters=4\nsize=1\nactivation=linear\n"
NET = head(3, 4, 4)
FLOATS = np.arange(16, dtype=np.float32)
X = np.ones((1, 3, 4, 4), np.float32)


def test_text_is_read_as_darknet_reads_it() -> None:
    text = b"""\xef\xbb\xbf
# a comment\r
[net]\r
  width = 32 0\r
width=64
; another
[yolo]
mask = 0, 1,2 # three
anchors=1.5, 2e1
empty=
lonely
stride=2px"""
    config = read_cfg(text, "a.cfg")
    (layer,) = config.layers
    assert config.net.integer("width", 0) == 320
    assert (layer.integers("mask"), layer.reals("anchors")) == ((0, 1, 2), (1.5, 20.0))
    assert layer.integer("stride", 1) == 2
    assert [finding.where for finding in config.findings] == [
        "a.cfg, line 5",
        "a.cfg, line 10",
        "a.cfg, line 11",
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has no section"),
        ("[convolutional]\nfilters=1\n", r"begins with \[convolutional\]"),
        ("width=3\n[net]\n", "Line 1 of net.cfg stands before"),
        ("[net]\nwidth=8\n", "no layers"),
        (NET + "[convolutional]\nfilters=many\n", "Line 7: filters=many is not a number"),
        ("[net]\nwidth=8\nheight=8\n" + CONV, "gives no channels"),
        (NET + "[route]\nlayers=-3\n", "reads layer -3"),
        (NET + "[route]\nlayers=0\n", "reads layer 0"),
    ],
)
def test_faulty_texts_are_named(tmp_path: Path, text: str, words: str) -> None:
    given_source = source(tmp_path, text, FLOATS)
    with pytest.raises(SourceModelError, match=words):
        load_source(given_source)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[lstm]\noutput=3\n", r"layer 0 \[lstm\], line 6 of net.cfg.*recurrent"),
        ("[convolutonal]\n", "unknown. Did you mean 'convolutional'"),
        (CONV + "xnor=1\n", "XNOR"),
        (CONV + "antialiasing=1\n", "blurs"),
        (CONV + "dontload=1\n", "random"),
        (CONV.replace("linear", "silu"), "'silu' is not known; darknet would take ReLU"),
        ("[sam]\nfrom=0\n", "reads layer 0"),
        ("[activation]\nactivation=mish\n", r"does not compute the activation mish behind"),
        (CONV + "groups=2\n", "3 channels and 4 filters cannot be split into 2"),
        ("[convolutional]\nsize=3\ndilation=2\n", "dilation and padding do not fit"),
        ("[convolutional]\nsize=9\n", "its output would be 1x-4x-4"),
        (CONV + "[convolutional]\nfilters=5\nshare_index=0\n", "layer 0, which have another form"),
        ("[maxpool]\nsize=2\npadding=9\n", "hold nothing of the input"),
        ("[reorg]\nstride=2\n", "needs channels that 4 divides"),
        ("[upsample]\nstride=1000\n" * 3, "its output would be"),
        ("[dropout]\n[avgpool]\n[route]\nlayers=0,1\n", "joins different sizes: 4x4, 1x1"),
        ("[yolo]\nclasses=1\nnum=1\nanchors=1,1\n", "gets 3 channels and needs 6"),
    ],
)
def test_layers_that_are_refused_name_the_reason(tmp_path: Path, text: str, words: str) -> None:
    given_source = source(tmp_path, NET + text, FLOATS)
    with pytest.raises(SourceModelError, match=words):
        load_source(given_source)
    if "reads layer" not in words:
        with pytest.raises(UnsupportedOperatorError):
            load_source(given_source)
        summary = inspect_source(given_source)
        assert summary.refused
        assert any(finding.severity == "error" for finding in summary.findings)


STORED = HEADER + FLOATS.astype("<f4").tobytes()


@pytest.mark.parametrize(
    ("text", "floats", "outputs", "words"),
    [
        (CONV * 2, FLOATS[:14], None, r"layer 0 \(conv_0\).* weights need 12 floats, 10 .*\(2 are"),
        (CONV * 2, FLOATS, None, r"layer 1 \(conv_1\): its biases need 4 floats, 0"),
        # all of conv_0 and the biases of conv_1: no cut, even behind the last that is needed
        (CONV * 2, np.zeros(20), ("conv_0",), r"layer 1 \(conv_1\): its weights need 16 floats, 0"),
        (CONV, STORED + b"\0" * 8, None, "holds 2 floats more than the network"),
        (CONV, STORED + b"\0" * 3, None, "holds 3 bytes more than the network"),
        (CONV, None, None, "its weights are missing"),
        (CONV, FLOATS, ("cnv_0",), r"no tensor 'cnv_0'[\s\S]*Did you mean 'conv_0'"),
    ],
)
def test_what_does_not_fit_the_text_is_told(
    tmp_path: Path, text: str, floats: Any, outputs: tuple[str] | None, words: str
) -> None:
    with pytest.raises(SourceModelError, match=words):
        load_source(source(tmp_path, NET + text, floats, outputs=outputs))


def test_a_look_tells_weights_that_do_not_fit(tmp_path: Path) -> None:
    short = inspect_source(source(tmp_path, NET + CONV * 2, FLOATS))
    assert {finding.code for finding in short.findings} == {"weights-misfit"}
    lonely = inspect_source(source(tmp_path, NET + CONV, None))
    assert [finding.code for finding in lonely.findings] == ["no-weights"]
    assert lonely.parameters == 16


def test_a_cut_network_takes_weights_of_its_first_layers(tmp_path: Path) -> None:
    """Files such as darknet53.conv.74 end behind the layers that a training starts from."""
    cut = source(tmp_path, NET + CONV + CONV, FLOATS, outputs=("conv_0",))
    loaded = load_source(cut)
    assert [finding.code for finding in loaded.findings] == ["weights-end-early"]
    expected = FLOATS[:4] + FLOATS[4:].reshape(4, 3).sum(1)
    np.testing.assert_allclose(run(loaded, X)[0][0, :, 0, 0], expected)


def test_a_layer_that_is_refused_can_be_cut_off(tmp_path: Path) -> None:
    text = NET + CONV + "[lstm]\noutput=3\n"
    loaded = load_source(source(tmp_path, text, FLOATS, outputs=("conv_0",)))
    assert [spec.name for spec in loaded.graph.outputs] == ["conv_0"]


def test_weights_behind_a_layer_that_is_refused_have_no_known_place(tmp_path: Path) -> None:
    text = NET + CONV + "[lstm]\noutput=3\n[route]\nlayers=0\n" + CONV
    loaded = load_source(source(tmp_path, text, FLOATS, outputs=("route_2",)))
    assert [spec.shape for spec in loaded.graph.outputs] == [(1, 4, 4, 4)]
    with pytest.raises(UnsupportedOperatorError, match=r"layer 1 \[lstm\]"):
        load_source(source(tmp_path, text, FLOATS, outputs=("conv_3",)))


def test_layers_that_no_output_needs_are_left_out_with_their_weights(tmp_path: Path) -> None:
    text = NET + CONV + CONV + "[route]\nlayers=0\n[yolo]\nclasses=1\nnum=1\nmask=0\n"
    text = text.replace("filters=4", "filters=6")
    floats = np.arange(24 + 42, dtype=np.float32)
    loaded = load_source(source(tmp_path, text, floats))
    assert [node.name for node in loaded.graph.model.graph] == ["conv_0", "route_2"]
    assert set(loaded.graph.model.graph.initializers) == {"conv_0_weights", "conv_0_biases"}


@pytest.mark.parametrize(
    ("header", "transposed"),
    [
        (struct.pack("<3iI", 0, 1, 0, 7), False),
        (struct.pack("<3iq", 0, 2, 5, 1 << 40), False),
        (struct.pack("<3iI", 1001, 1, 0, 7), True),
    ],
)
def test_header_versions(tmp_path: Path, header: bytes, transposed: bool) -> None:
    weights = np.arange(12, dtype=np.float32)
    floats = np.concatenate([np.zeros(4, np.float32), weights])
    text = "[net]\ninputs=3\n[connected]\noutput=4\nactivation=linear\n"
    given_source = source(tmp_path, text, header + floats.astype("<f4").tobytes())
    loaded = load_source(given_source)
    x = np.array([[1, 10, 100]], np.float32)
    matrix = weights.reshape(3, 4).T if transposed else weights.reshape(4, 3)
    np.testing.assert_allclose(run(loaded, x)[0], x @ matrix.T)


@pytest.mark.parametrize("size", [(3, 8, 6), (1, 3, 8, 6)])
def test_sizes_can_be_changed_and_given(tmp_path: Path, size: tuple[int, ...]) -> None:
    text = NET.replace("channels=3\n", "") + CONV
    loaded = load_source(source(tmp_path, text, FLOATS, input_size_list=(size,)))
    assert [spec.shape for spec in loaded.graph.inputs] == [(1, 3, 8, 6)]


def test_letterboxed_training_is_told(tmp_path: Path) -> None:
    text = NET + "letter_box=1\n" + CONV
    findings = load_source(source(tmp_path, text, FLOATS)).findings
    assert [finding.code for finding in findings] == ["letter-box"]


@pytest.mark.parametrize("number", range(60))
def test_damaged_files_give_an_error_or_a_graph(tmp_path: Path, number: int) -> None:
    net = (NET + CONV + "[maxpool]\nsize=2\nstride=1\n[route]\nlayers=-1,0\n").encode()
    floats = HEADER + FLOATS.tobytes()
    damaged = source(tmp_path, "", mutant(floats, number) if number % 2 else floats)
    damaged.model.write_bytes(net if number % 2 else mutant(net, number, text=True))
    for step in (inspect_source, lambda s: verify(load_source(s).graph)):
        with contextlib.suppress(EngineError):
            step(damaged)


def _differences(zoo: Path, name: str, decode: bool) -> dict[str, float]:
    reference = np.load(zoo / "ref" / f"darknet_{name}.npz", allow_pickle=False)
    options = LoadOptions(darknet_epsilon=1e-6, darknet_decode=decode)
    found = find_source(zoo / "darknet" / f"{name}.cfg", None, options)
    loaded = load_source(found)
    outputs = run(loaded, reference["in:data"])
    result = {}
    for spec, value in zip(loaded.graph.outputs, outputs, strict=True):
        if decode:
            value[:, 5:][value[:, 5:] <= 0.2] = 0  # as OpenCV's threshold does
        expected = reference[f"{'out' if decode else 'head'}:{spec.name}"]
        assert value.shape == expected.shape
        result[spec.name] = float(np.abs(value - expected).max())
    return result


@pytest.mark.parametrize("name", ["yolo-fastest-1.1", "yolo-fastest-1.1_body"])
@pytest.mark.parametrize("decode", [False, True])
def test_trained_networks_equal_their_references(zoo: Path, name: str, decode: bool) -> None:
    differences = _differences(zoo, name, decode)
    assert len(differences) == 2
    assert max(differences.values()) < 1e-4


def test_a_zoo_network_is_looked_at(zoo: Path) -> None:
    model = zoo / "darknet" / "yolo-fastest-1.1.cfg"
    summary = inspect_source(find_source(model))
    assert summary.operators["convolutional"] == 84
    assert [(t.name, t.shape) for t in summary.outputs] == [
        ("conv_120", (1, 255, 10, 10)),
        ("conv_129", (1, 255, 20, 20)),
    ]
    assert summary.weights_bytes + 20 == model.with_suffix(".weights").stat().st_size
    assert not summary.refused
