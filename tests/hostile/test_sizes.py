"""A file of 1 KB that asks for gigabytes is refused by an estimate, with the size named."""

from __future__ import annotations

import onnx
import pytest

from engine.base.errors import SourceModelError
from engine.frontends.onnx.canonicalize import check_functions
from tests.hostile.conftest import Bounded
from tests.hostile.models import (
    LARGE,
    doubled_constants,
    doubled_functions,
    doubled_sizes,
    function,
    many_outputs,
    model,
)


def test_looking_and_loading_are_bounded(bounded: Bounded) -> None:
    models = {name: proto for name, (proto, _) in LARGE.items()}
    assert all(proto.ByteSize() < 3000 for proto in models.values())
    looked = bounded("look", models)
    assert set(looked) == set(models)
    assert {kind for kind, _ in looked.values()} <= {"", "SourceModelError"}
    loaded = bounded("load", models)
    for name, (_, words) in LARGE.items():
        assert loaded[name][0] == "SourceModelError", (name, loaded[name])
        assert words in loaded[name][1]


@pytest.mark.long
def test_models_of_the_same_kinds_and_honest_sizes_are_taken(bounded: Bounded) -> None:
    models = {
        "functions": doubled_functions(8),
        "sizes": doubled_sizes(12),
        # carried no further than some thousands of elements, and then only inferred and folded
        "long_sizes": doubled_sizes(20),
        "constants": doubled_constants(20),
    }
    assert bounded("build", models) == dict.fromkeys(models, ("", ""))


def test_numbers_of_thousands_of_digits_are_not_written_out() -> None:
    functions = [function(f"f{n}", *[f"f{n + 1}"] * 9) for n in range(6000)]
    functions.append(function("f6000"))
    call = onnx.helper.make_node("f0", ["x"], ["y"], domain=functions[0].domain)
    with pytest.raises(SourceModelError, match="1,000,000,000,000,000 operators"):
        check_functions(model([call], functions=functions))


@pytest.mark.long
def test_thousands_of_outputs(bounded: Bounded) -> None:
    told = bounded("load", {"many": many_outputs(5000), "few": many_outputs(1000)})
    assert told["few"] == ("", "")
    assert told["many"][0] == "SourceModelError"
    assert "5,000 outputs" in told["many"][1]
