"""The schemas of verbs hold for what the verbs print, and for what the codec takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import pytest
from jsonschema import Draft202012Validator, ValidationError

from engine import UsageError, verb_schema
from engine.wire.codec import Above, Omit, encode, read_request
from engine.wire.compile import CompileParams
from engine.wire.method import methods
from engine.wire.record import record
from engine.wire.schema import schema_of
from rknntui.cli.root import run

MODEL = Path(__file__).resolve().parents[2] / "rknntui/demo/digits_demo.onnx"


def printed(capsys: pytest.CaptureFixture[str], *words: object) -> Any:
    capsys.readouterr()
    assert run([*map(str, words), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("method", methods().values(), ids=lambda method: method.name)
def test_every_type_of_the_wire_has_a_schema(method: Any) -> None:
    for kind, answer in ((method.params, False), (method.result, True)):
        schema = json.loads(json.dumps(schema_of(kind, answer=answer), allow_nan=False))
        Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize(
    ("verb", "flags"),
    [
        ("build", ["--no-quantize"]),
        ("accuracy", ["--dataset", MODEL.with_name("dataset.txt"), "--no-rounding"]),
        ("check", ["--chip", "rk3588"]),
        ("perf estimate", ["--chip", "rk3566", "--chip", "rk3588"]),
        ("inspect", []),
        ("hybrid joins", ["--dataset", MODEL.with_name("dataset.txt")]),
        ("export", ["--no-quantize", "-o", "{tmp}/net.rknn"]),
    ],
)
def test_what_a_verb_prints_is_of_its_schema(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, verb: str, flags: list[object]
) -> None:
    words = [str(flag).format(tmp=tmp_path) for flag in flags]
    answer = printed(capsys, *verb.split(), MODEL, *words)
    schema = verb_schema(verb)["result"]
    Draft202012Validator(schema).validate(answer)
    for name in schema["$defs"][schema["$ref"].rpartition("/")[2]]["required"]:
        left_out = {key: value for key, value in answer.items() if key != name}
        with pytest.raises(ValidationError):
            Draft202012Validator(schema).validate(left_out)


def test_the_kept_runs_and_the_toolkits_are_of_their_schemas(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for verb in ("perf history", "vendor list"):
        answer = printed(capsys, *verb.split())
        Draft202012Validator(verb_schema(verb)["result"]).validate(answer)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"chips": ["rk3588", "rk3566"], "samples": 4},
        {"samples": -1},
        {"samples": 1001},
        {"samples": "/d/photos"},
        {"samples": 1.5},
        {"quantizer": "vendor"},
        {"quantizer": "mine"},
        {"chips": "rk3588"},
        {"path": ""},
        {"path": 1},
        {"nonsense": 1},
    ],
)
def test_schema_and_codec_take_the_same_requests(change: dict[str, Any]) -> None:
    request = {**encode(CompileParams(recipe={"model": "a.onnx"}, chips=("rk3588",), path="/d"))}
    request |= change
    plain = json.loads(json.dumps(request))
    taken = Draft202012Validator(verb_schema("compile")["parameters"]).is_valid(plain)
    try:
        read_request(CompileParams, plain)
    except UsageError:
        assert not taken
    else:
        assert taken


def test_a_verb_prints_its_schema(capsys: pytest.CaptureFixture[str]) -> None:
    schema = printed(capsys, "schema", "hybrid", "search")
    assert schema == json.loads(json.dumps(verb_schema("hybrid search")))
    search = schema["parameters"]["$defs"]["SearchParams"]
    assert search["additionalProperties"] is False
    assert run(["schema", "biuld"]) == 2
    assert "build" in capsys.readouterr().err


@record
class _Bounds:
    """A number above 0, a pair, and what may be absent."""

    rate: Annotated[float, Above(0.0)]
    pair: tuple[int, str] = (0, "")
    note: Omit[str] = None


@pytest.mark.parametrize(
    ("answer", "data", "fits"),
    [
        (False, {"rate": 0.1}, True),
        (False, {"rate": 0.0}, False),
        (False, {"rate": 1, "pair": [1, "a"]}, True),
        (False, {"rate": 1, "pair": [1]}, False),
        (False, {"rate": 1, "pair": [1, "a", 2]}, False),
        (True, {"rate": 1, "pair": [1, "a"]}, True),
        (True, {"rate": 1, "note": "n"}, False),
        (True, {"rate": 1, "pair": [1, "a"], "later": 1}, True),
    ],
)
def test_bounds_rows_and_what_may_be_left_out(
    answer: bool, data: dict[str, Any], fits: bool
) -> None:
    assert Draft202012Validator(schema_of(_Bounds, answer=answer)).is_valid(data) is fits
