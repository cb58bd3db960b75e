"""What TensorFlow saves but is no frozen graph: it is named, and the lines that freeze it work."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import SourceModelError
from engine.base.events import NullReporter
from engine.frontends.load import find_source
from engine.frontends.tensorflow import load

pytestmark = [pytest.mark.long, pytest.mark.tensorflow, pytest.mark.usefixtures("installed")]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small network as Keras and TensorFlow 1 save it."""
    tf = pytest.importorskip("tensorflow")
    folder = tmp_path_factory.mktemp("saved")
    make = tf.keras.layers
    layers = [tf.keras.Input((8, 8, 3)), make.Conv2D(2, 3), make.Flatten(), make.Dense(2)]
    model = tf.keras.Sequential(layers)
    model.export(folder / "saved_model", verbose=False)
    model.save(folder / "m.h5")
    model.save(folder / "m.keras")
    v1 = tf.compat.v1
    with v1.Graph().as_default() as graph:
        x = v1.placeholder("float32", (1, 4), name="x")
        w = v1.get_variable("w", (4, 2), use_resource=False)
        tf.matmul(x, w, name="OUTPUT_NODE")
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            v1.train.Saver().save(session, str(folder / "model.ckpt"))
            frozen = v1.graph_util.convert_variables_to_constants(
                session, graph.as_graph_def(), ["OUTPUT_NODE"]
            )
        tf.io.write_graph(frozen, str(folder), "g.pbtxt")
    return folder


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("m.h5", "Keras .h5"),
        ("m.keras", "Keras model"),
        ("saved_model", "SavedModel"),
        ("saved_model/saved_model.pb", "SavedModel file"),
        ("checkpoint", "TensorFlow checkpoint"),
        ("model.ckpt.index", "TensorFlow checkpoint"),
        ("g.pbtxt", "graph as text"),
    ],
)
def test_the_lines_of_the_remedy_freeze_it(
    saved: Path, name: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import google.protobuf.text_format
    import tensorflow as tf

    monkeypatch.chdir(saved)
    Path("model.pb").unlink(missing_ok=True)
    with pytest.raises(SourceModelError, match=words) as caught:
        find_source(name)
    code = "\n".join(line[4:] for line in caught.value.remedy.split("\n")[1:])
    code = code.replace("PATH", repr(name)).replace("FOLDER", "'saved_model'")
    names: dict[str, Any] = {"tf": tf, "google": google}
    inside: Any = contextlib.nullcontext()
    if "import_meta_graph" in code:
        inside = tf.Graph().as_default()
        code = code.replace("v1.disable_eager_execution();", "")  # it cannot be taken back
    with inside:
        exec(code.replace("224, 224", "8, 8"), names)  # noqa: S102 - our own text
    loaded = load(find_source("model.pb"), NullReporter())
    assert "numbers-compared" in {finding.code for finding in loaded.findings}
