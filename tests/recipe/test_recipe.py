"""Recipes: the options as one object, as YAML, as keys of stages."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import RecipeError
from engine.options import OPTIONS, SECTIONS, Option, Value
from engine.pipeline.pipeline import reported_stages
from engine.pipeline.stages import STAGES
from engine.recipe import (
    Recipe,
    cache_key,
    canonical_json,
    diff_recipes,
    dump_recipe,
    load_recipe,
    parse_recipe,
    portable_values,
    read_recipe,
    recipe_problems,
    recipe_schema,
    relocatable,
    stage_values,
)
from tests.safety import ends

NAMES = reported_stages(STAGES)

FULL: dict[str, Any] = {
    "model": "net.onnx",
    "inputs": ["in:0"],
    "input_size_list": [[1, 3, 8, 8]],
    "input_initial_val": [None],
    "outputs": ["out"],
    "mean_values": [[127.0, 127.5, 0.0]],
    "std_values": [[128.0, 128.0, 128.0]],
    "quant_img_RGB2BGR": [True],
    "resize_filter": "box",
    "resize_fit": "pad",
    "do_quantization": False,
    "quantized_method": "layer",
    "optimization_level": 1,
    "target_platform": "rk3588",
    "custom_string": "two\nlines: yes # no",
    "dataset": "sub/dataset.txt",
    "dataset_count": 7,
    "dataset_seed": 3,
    "quantized_layers": {"128": "float16", "a;b": "int16"},
    "quantized_ranges": {"128": [-1.5, 6.0]},
    "op_target": {"x": "cpu"},
    "compress_weight": True,
}


def test_recipe_and_options_are_the_same_set_with_the_same_defaults() -> None:
    assert [field.name for field in fields(Recipe)] == list(SECTIONS)
    for option in OPTIONS:
        part = Recipe().section(option.section)
        assert getattr(part, option.name) == option.default
        assert Recipe().value(option.name) == option.default
    assert Recipe().to_values() == {}
    assert set(Recipe().to_values(everything=True)) == {o.name for o in OPTIONS}


def test_frozen_and_hashable() -> None:
    recipe = Recipe.from_values(FULL)
    assert hash(recipe) == hash(Recipe.from_values(FULL))
    assert recipe == Recipe.from_values(FULL)
    assert recipe != Recipe()
    with pytest.raises(AttributeError, match="resize_fit"):
        recipe.preprocess.resize_fit = "crop"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        recipe.preprocess = Recipe().preprocess  # type: ignore[misc]
    assert recipe.to_values() == FULL
    changed = recipe.with_values(resize_fit="crop", mean_values=None, std_values=None)
    assert changed.preprocess.resize_fit == "crop"
    assert changed.preprocess.mean_values is None
    assert recipe.preprocess.resize_fit == "pad"


def test_every_value_is_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[str] = []
    check = Option.check

    def counted(self: Option, value: Value) -> Value:
        checked.append(self.name)
        return check(self, value)

    monkeypatch.setattr(Option, "check", counted)
    recipe = Recipe.from_values(FULL)
    assert sorted(checked) == sorted(FULL)
    assert recipe.preprocess.mean_values == ((127.0, 127.5, 0.0),)


def test_file_round_trip_with_paths_from_its_folder(tmp_path: Path) -> None:
    base = tmp_path / "project"
    base.mkdir()
    recipe = Recipe.from_values(FULL, base)
    assert recipe.source.model == str(base / "net.onnx")
    for everything in (False, True):
        for comments in (False, True):
            text = dump_recipe(recipe, base=base, everything=everything, comments=comments)
            path = base / "r.yaml"
            path.write_text(text, encoding="utf-8")
            assert load_recipe(path) == recipe
            assert str(tmp_path) not in text
    moved = tmp_path / "elsewhere"
    base.rename(moved)
    assert load_recipe(moved / "r.yaml").source.model == str(moved / "net.onnx")


def test_relative_recipe_path_gives_absolute_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("r.yaml").write_text("version: 1\nsource: {model: ../a.onnx}\n", encoding="utf-8")
    loaded = load_recipe(Path("r.yaml"))
    assert loaded.source.model == str(tmp_path / "../a.onnx")
    monkeypatch.chdir("/")
    assert load_recipe(tmp_path / "r.yaml") == loaded


def test_only_what_differs_is_written() -> None:
    assert dump_recipe(Recipe()) == "version: 1\n"
    short = dump_recipe(Recipe.from_values({"model": "a.onnx", "mean_values": [127, 127, 127]}))
    assert short == (
        "version: 1\nsource:\n  model: a.onnx\npreprocess:\n  mean_values: [[127, 127, 127]]\n"
    )


text_values = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"))


@given(
    model=text_values,
    custom=text_values,
    names=st.lists(text_values.filter(bool), min_size=1, max_size=3),
    mean=st.lists(st.floats(-3e38, 3e38, allow_nan=False), min_size=1, max_size=4),
    level=st.integers(0, 3),
)
def test_any_text_survives_yaml(
    model: str, custom: str, names: list[str], mean: list[float], level: int
) -> None:
    recipe = Recipe.from_values(
        {
            "model": model,
            "custom_string": custom,
            "inputs": names,
            "outputs": names,
            "mean_values": [mean],
            "optimization_level": level,
        }
    )
    values, problems = parse_recipe(dump_recipe(recipe))
    assert problems == ()
    assert Recipe.from_values(values) == recipe
    # what names files is still there, so that a path which was lost would show
    assert values.get("model") == model


def problems_of(text: str | bytes) -> list[tuple[int, str, str]]:
    return [(p.line, p.option, p.message) for p in parse_recipe(text)[1]]


def test_every_problem_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    path.write_text(
        "version: 1\n"
        "sorce: {}\n"
        "source:\n"
        "  modle: a.onnx\n"
        "  mean_values: [1]\n"
        "  inputs: [1]\n"
        "model: x\n"
        "quantization:\n"
        "  optimization_level: 9\n"
        "  optimization_level: 2\n"
        "  quantized_dtype: w8a9\n"
        "target: 3\n",
        encoding="utf-8",
    )
    values, problems = read_recipe(path)
    found = {(p.line, p.option) for p in problems}
    assert found == {
        (2, "sorce"),
        (4, "modle"),
        (5, "mean_values"),
        (6, "inputs"),
        (7, "model"),
        (10, "optimization_level"),
        (11, "quantized_dtype"),
        (12, "target"),
    }
    by_line = {p.line: p.message for p in problems}
    assert "'source'" in by_line[2]
    assert "'model'" in by_line[4]
    assert "preprocess" in by_line[5]
    assert "source" in by_line[7]
    assert "twice" in by_line[10]
    assert "w8a8" in by_line[11]
    assert values["optimization_level"] == 2
    with pytest.raises(RecipeError, match="line 2") as caught:
        load_recipe(path)
    assert str(path) in caught.value.what
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("", 1, "version: 1"),
        ("- a\n", 1, "version: 1"),
        ("version: 1\nsource: {model: [a}\n", 2, "not valid YAML"),
        ("source: {}\n", 1, "missing"),
        ("version: 2\n", 1, "Update"),
        ("version: true\n", 1, "must be 1"),
        ("version: '1'\n", 1, "must be 1"),
        ("version: 1\n3: x\n", 2, "not the name"),
        ("version: 1\nsource: &a {model: x}\n", 2, "Anchors"),
        ("version: 1\nsource: {model: !!python/object/apply:os.system [x]}\n", 2, "not valid YAML"),
        ("version: 1\nsource: {model: 2020-01-01}\n", 2, "must be text"),
        ("version: 1\n---\nversion: 1\n", 2, "more than one"),
        ("version: 1\nquantization: {optimization_level: 0x" + "f" * 6000 + "}\n", 2, "at most"),
        ("version: 1\npreprocess: {mean_values: [[.nan]]}\n", 2, "list of numbers"),
        (b"version: 1\n\xff\n", 2, "UTF-8"),
        ("version: 1\nsource: {model: 'a\\0'}\ntarget: {custom_string: \"a\\0\"}\n", 3, "text"),
    ],
)
def test_what_is_refused(text: str | bytes, line: int, says: str) -> None:
    problems = problems_of(text)
    assert len(problems) == 1, problems
    assert problems[0][0] == line
    assert says in problems[0][2]


def test_hostile_files_are_refused_quickly(tmp_path: Path) -> None:
    laughs = "a: &a [x, x]\n" + "".join(
        f"{chr(98 + i)}: &{chr(98 + i)} [*{chr(97 + i)}, *{chr(97 + i)}]\n" for i in range(20)
    )
    many = "version: 1\nsource:\n" + "".join(f"  mode{i}: 1\n" for i in range(9000))
    for text in (laughs, "[" * 900_000, "{a: " * 200_000, many, "a: " + "1" * 900_000):
        with ends():
            assert problems_of(text)
    big = tmp_path / "big.yaml"
    big.write_bytes(b"#" * ((1 << 20) + 1))
    with pytest.raises(RecipeError, match="is read up to"):
        load_recipe(big)
    with pytest.raises(RecipeError, match="does not exist"):
        load_recipe(tmp_path / "none.yaml")
    with pytest.raises(RecipeError, match="could not be read"):
        load_recipe(tmp_path)


def test_tolerated_forms() -> None:
    values, problems = parse_recipe(
        "\ufeffversion: 1\r\nsource:\r\n  model: a\r\ntarget:\r\n".encode()
    )
    assert (values, problems) == ({"model": "a"}, ())


def test_contradictions_are_found() -> None:
    values = {"mean_values": [[1], [2]], "std_values": [[1]], "inputs": ["a"]}
    assert "std_values" in recipe_problems(values)
    assert "std_values" in recipe_problems({"mean_values": [[1, 2]], "std_values": [[1, 2, 3]]})
    assert recipe_problems({"mean_values": [[1, 2]], "std_values": [[1]]}) == {}
    sizes = {"inputs": ["a", "b"], "input_size_list": [[1]]}
    assert set(recipe_problems(sizes)) == {"input_size_list"}
    with pytest.raises(RecipeError, match="std_values"):
        Recipe.from_values(values)
    with pytest.raises(RecipeError) as caught:
        Recipe.from_values({"optimization_level": 9, "modle": "x"})
    assert "optimization_level" in caught.value.what
    assert "modle" in caught.value.what


def test_diff_reads_like_typed_text() -> None:
    before = Recipe.from_values({"mean_values": [127], "model": "a"})
    after = Recipe.from_values({"model": "b", "quantized_method": "layer"})
    assert [str(change) for change in diff_recipes(before, after)] == [
        "model: a -> b",
        "mean_values: 127 -> (not set)",
        "quantized_method: channel -> layer",
    ]
    assert diff_recipes(before, before) == ()


def test_stage_keys_depend_on_their_own_options_only() -> None:
    base = Recipe.from_values({"model": "a.onnx", "dataset": "d.txt"})
    contents = {"model": "m" * 64, "dataset": "d" * 64}

    def keys(recipe: Recipe) -> dict[str, str]:
        return {s: cache_key(recipe, s, contents=contents) for s in NAMES}

    plain = keys(base)
    assert len(set(plain.values())) == len(NAMES)
    for change, stage in (
        ({"inputs": ["x"]}, "load"),
        ({"optimization_level": 2}, "optimise"),
        ({"mean_values": [1]}, "calibrate"),
        ({"epochs": 2}, "calibrate"),
        ({"reorder_channel": [2, 1, 0]}, "calibrate"),
        ({"quantized_method": "layer"}, "quantize"),
        ({"quantized_algorithm": "mmse"}, "quantize"),  # calibration keeps histograms
        ({"quantized_layers": {"x": "float16"}}, "quantize"),
        ({"rknn_batch_size": 4}, "container"),
        ({"custom_string": "x"}, "container"),
    ):
        changed = keys(base.with_values(**change))
        assert {s for s in NAMES if changed[s] != plain[s]} == {stage}
    # names do not matter, what the files hold does
    assert keys(base.with_values(model="/b/c.onnx", dataset="x")) == plain
    assert cache_key(base, "load", contents={"model": "x"}) != plain["load"]
    assert cache_key(base, "load", contents=contents, previous="p") != plain["load"]
    assert cache_key(base, "load", contents=contents, extra={"ort": "1"}) != plain["load"]
    with pytest.raises(KeyError):
        cache_key(base, "load")
    stages = [name for stage in NAMES for name in stage_values(base, stage)]
    files = ("path", "paths", "code")
    assert sorted(stages) == sorted(o.name for o in OPTIONS if o.kind not in files)


def test_keys_are_the_same_in_every_process() -> None:
    """A key that moved with the hash seed or the Python version would lose the cache silently."""
    recipe = Recipe.from_values({"mean_values": [127]})
    assert canonical_json({"b": [1.0, "ü"], "a": None}) == b'{"a":null,"b":[1.0,"\\u00fc"]}'
    with pytest.raises(ValueError, match="JSON"):
        canonical_json(float("nan"))
    assert stage_values(recipe, "optimise") == {
        "optimization_level": 3,
        "model_pruning": False,
        "remove_reshape": False,
    }
    assert cache_key(recipe, "optimise") == (
        "16585e72d1f9ec648c307b3fbbcfbb529232792e100cdf5bcf79b05a9c1f7e72"
    )


def test_portable_recipe_has_every_default_and_no_path(tmp_path: Path) -> None:
    values = FULL | {"input_initial_val": ["init.npy"]}
    recipe = Recipe.from_values(values, tmp_path)
    digests = {
        str(tmp_path / "net.onnx"): "a" * 64,
        str(tmp_path / "sub/dataset.txt"): "b" * 64,
        str(tmp_path / "init.npy"): "c" * 64,
    }
    data = relocatable(recipe, digests)
    text = json.dumps(data)
    assert str(tmp_path) not in text
    assert "sub/" not in text
    assert data["source"]["model"] == {"file": "net.onnx", "sha256": "a" * 64}
    assert data["source"]["input_initial_val"] == [{"file": "init.npy", "sha256": "c" * 64}]
    assert data["dataset"]["dataset"] == {"file": "dataset.txt", "sha256": "b" * 64}
    assert {name for s in SECTIONS for name in data[s]} == {o.name for o in OPTIONS}
    shown = portable_values(json.loads(text))
    assert shown == values | {"dataset": "dataset.txt"}
    elsewhere = Recipe.from_values(values, tmp_path / "other")
    other = {k.replace(str(tmp_path), str(tmp_path / "other")): v for k, v in digests.items()}
    assert relocatable(elsewhere, other) == data


def test_portable_recipes_of_other_versions_are_shown_as_far_as_known() -> None:
    data = {
        "version": 9,
        "source": {"model": {"file": "a.onnx"}, "magic": 1, "inputs": 3},
        "quantization": "?",
        "preprocess": {"resize_fit": "future", "mean_values": [[1]]},
    }
    assert portable_values(data) == {"model": "a.onnx", "mean_values": [[1.0]]}


def test_schema_describes_every_option() -> None:
    schema = recipe_schema()
    text = json.dumps(schema)
    for option in OPTIONS:
        assert f'"{option.name}"' in text
        assert json.dumps(option.help) in text
    assert "rk3588" in text
    assert schema["required"] == ["version"]
    assert schema["additionalProperties"] is False
    preprocess = schema["properties"]["preprocess"]["properties"]
    rows = {"type": "array", "items": {"type": "array", "items": {"type": "number"}}}
    assert preprocess["mean_values"]["anyOf"] == [rows, {"type": "null"}]
    assert preprocess["resize_fit"]["enum"] == ["stretch", "crop", "pad"]


def test_mappings_are_frozen_compared_and_shown_by_their_entries() -> None:
    one = Recipe.from_values({"quantized_layers": {"a": "int8", "b": "float16"}})
    two = Recipe.from_values({"quantized_layers": {"b": "float16", "a": "int8"}})
    assert one == two
    assert hash(one) == hash(two)
    assert cache_key(one, "quantize") == cache_key(two, "quantize")
    assert one.with_values(quantized_layers={}) == Recipe()
    (change,) = diff_recipes(one, two.with_values(quantized_layers={"a": "int16"}))
    assert str(change) == "quantized_layers: a=int8; b=float16 -> a=int16"


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("  quantized_layers: {128: int8}", 3, "in quotes"),
        ("  quantized_layers:\n    a: int8\n    a: int16", 5, "twice"),
        ("  quantized_layers: [a]", 3, "tensor names"),
        ("  quantized_ranges: {a: [1, 0]}", 3, "larger maximum"),
        ("  op_target: {a: tpu}", 3, "auto, npu, cpu, gpu"),
    ],
)
def test_mappings_in_a_file_that_do_not_fit_name_their_line(
    text: str, line: int, says: str
) -> None:
    _, problems = parse_recipe(f"version: 1\nquantization:\n{text}\n")
    assert [problem.line for problem in problems] == [line]
    assert says in problems[0].message


@pytest.mark.parametrize(
    ("values", "option"),
    [
        ({"channel_mean_value": [0, 0, 0, 1], "mean_values": [1, 2, 3]}, "channel_mean_value"),
        ({"reorder_channel": [2, 1, 0], "quant_img_RGB2BGR": [True]}, "reorder_channel"),
        ({"dynamic_input": [[[1, 3]], [[1, 3], [1, 4]]]}, "dynamic_input"),
        ({"dynamic_input": [[[1, 3]], [[1, 3]]]}, "dynamic_input"),
        ({"dynamic_input": [[[1, 3]]], "inputs": ["a", "b"]}, "dynamic_input"),
    ],
)
def test_options_that_contradict_each_other(values: dict[str, Any], option: str) -> None:
    assert list(recipe_problems(values)) == [option]
    with pytest.raises(RecipeError, match=option):
        Recipe.from_values(values)


def test_a_tab_is_named_where_it_indents() -> None:
    _, problems = parse_recipe("version: 1\nsource:\n\tmodel: x.onnx\n")
    assert [(one.line, "tab" in one.message) for one in problems] == [(3, True)]
