"""What makes a dataset doubtful is told with figures; what is sound is left alone."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from engine.base.findings import Finding
from engine.dataset import Preprocess, check, dataset_from_paths, inspect
from engine.dataset.dataset_list import Dataset
from engine.graph.ir import TensorSpec
from engine.recipe import Recipe

RGB = TensorSpec("image", (1, 3, 48, 64), "float32")
GREY = TensorSpec("image", (1, 1, 48, 64), "float32")
SOUND = Preprocess(mean=((127.0,) * 3,), std=((128.0,) * 3,))


def photograph(seed: int, width: int = 64, height: int = 48) -> np.ndarray:
    """A blue sky over a brown ground with a face in it, and noise."""
    rng = np.random.default_rng(seed)
    pixels = np.empty((height, width, 3))
    pixels[: height // 2] = (120, 170, 235)
    pixels[height // 2 :] = (190, 140, 95)
    pixels[height // 2 : -4, width // 3 : width // 2] = (220, 160, 130)
    pixels += rng.normal(0, 12, pixels.shape) + rng.uniform(-8, 8)
    pixels[-6:] += (40, 10, -20)  # more red than blue, as photographs are
    pixels[:, :, 0] += 25
    return np.clip(pixels, 0, 255).astype(np.uint8)


def folder(path: Path, arrays: list[np.ndarray], suffix: str = "png") -> Dataset:
    paths = []
    for index, array in enumerate(arrays):
        paths.append(path / f"{index}.{suffix}")
        Image.fromarray(array).save(paths[-1])
    return dataset_from_paths(paths, 1)


def findings(
    dataset: Dataset, spec: TensorSpec = RGB, preprocess: Preprocess = SOUND
) -> dict[str, Finding]:
    return {f.code: f for f in check(dataset, [spec], preprocess).findings}


@pytest.mark.parametrize("suffix", ["png", "jpg"])
def test_a_sound_dataset_gives_no_finding(tmp_path: Path, suffix: str) -> None:
    dataset = folder(tmp_path, [photograph(i) for i in range(24)], suffix)
    assert findings(dataset) == {}


@pytest.mark.parametrize(("count", "code"), [(1, "only-one-sample"), (6, "samples-few")])
def test_few_samples(tmp_path: Path, count: int, code: str) -> None:
    found = findings(folder(tmp_path, [photograph(i) for i in range(count)]))
    assert list(found) == [code]
    assert "cut off" in found[code].cause or str(count) in found[code].what


def test_grey_where_colour_was_promised_and_the_other_way(tmp_path: Path) -> None:
    grey = [photograph(i)[..., 1] for i in range(3)]
    stored_as_rgb = [np.repeat(photograph(9)[..., 1:2], 3, axis=2)]
    colour = [photograph(i) for i in range(20, 40)]
    (tmp_path / "few").mkdir()
    found = findings(folder(tmp_path / "few", grey + stored_as_rgb + colour))
    assert "4 of 24 images" in found["pictures-grey"].what
    assert found["pictures-grey"].severity == "info"
    found = findings(folder(tmp_path, grey * 7 + colour[:3]))
    assert found["pictures-grey"].severity == "warning"
    one = Preprocess(mean=((127.0,),), std=((128.0,),))
    assert (
        "3 of 24"
        in findings(folder(tmp_path, grey * 7 + colour[:3]), GREY, one)["colour-made-grey"].what
    )


def test_mean_and_std_for_fractions_are_cured_by_an_option(tmp_path: Path) -> None:
    dataset = folder(tmp_path, [photograph(i) for i in range(20)])
    slip = Preprocess(mean=((0.485, 0.456, 0.406),), std=((0.229, 0.224, 0.225),))
    found = findings(dataset, RGB, slip)["mean-std-of-fractions"]
    assert "1114" in found.what
    assert found.changes["mean_values"] == [pytest.approx([123.675, 116.28, 103.53])]
    assert found.changes["std_values"] == [pytest.approx([58.395, 57.12, 57.375])]
    cured = Preprocess(
        mean=tuple(map(tuple, found.changes["mean_values"])),
        std=tuple(map(tuple, found.changes["std_values"])),
    )
    assert findings(dataset, RGB, cured) == {}


def test_the_remedy_of_generation_1_is_in_its_own_option(tmp_path: Path) -> None:
    dataset = folder(tmp_path, [photograph(i) for i in range(20)])
    recipe = Recipe.from_values({"channel_mean_value": [[0.5, 0.5, 0.5, 0.5]]})
    found = findings(dataset, RGB, Preprocess.from_recipe(recipe, 1))["mean-std-of-fractions"]
    assert found.changes == {"channel_mean_value": [[127.5, 127.5, 127.5, 127.5]]}
    cured = recipe.with_values(**found.changes)
    assert findings(dataset, RGB, Preprocess.from_recipe(cured, 1)) == {}


@pytest.mark.parametrize(
    ("mean", "std", "code"),
    [
        ((0.0,), (1e5,), "range-unusual"),
        ((127.0,), (2.0,), "range-unusual"),
        ((5000.0,), (128.0,), "range-unusual"),
        ((104.0,), (1.0,), "std-unset"),
        ((0.0,), (255.0,), None),
        ((0.0,), (1.0,), "mean-std-unset"),
        ((127.5,), (127.5,), None),
    ],
)
def test_values_after_mean_and_std(
    tmp_path: Path, mean: tuple[float], std: tuple[float], code: str | None
) -> None:
    dataset = folder(tmp_path, [photograph(i) for i in range(20)])
    assert list(findings(dataset, RGB, Preprocess((mean,), (std,)))) == ([code] if code else [])


@pytest.mark.parametrize("swap", [False, True])
def test_means_in_the_other_order_than_the_pictures(tmp_path: Path, swap: bool) -> None:
    dataset = folder(tmp_path, [photograph(i) for i in range(20)])
    rgb = (123.68, 116.779, 103.939)
    wrong = rgb if swap else rgb[::-1]
    std = ((58.82,) * 3,)
    found = findings(dataset, RGB, Preprocess((wrong,), std, rgb2bgr=swap))
    assert found["mean-order-differs"].changes == {"quant_img_RGB2BGR": not swap}
    assert findings(dataset, RGB, Preprocess((wrong,), std, rgb2bgr=not swap)) == {}


def test_exchanged_channels_are_hinted_at_with_figures(tmp_path: Path) -> None:
    turned = [photograph(i)[..., ::-1] for i in range(20)]
    found = findings(folder(tmp_path, turned))["pictures-look-turned"]
    assert found.severity == "info"
    assert "blue is" in found.what
    assert "hint" in found.cause


def test_constant_and_equal_pictures(tmp_path: Path) -> None:
    arrays = [photograph(i) for i in range(18)]
    arrays += [np.full((48, 64, 3), 7, np.uint8), photograph(3)]
    found = findings(folder(tmp_path, arrays))
    assert "1 of 20 images" in found["pictures-constant"].what
    assert "18.png" in found["pictures-constant"].what
    assert "1 files" in found["files-equal"].what
    assert "19.png and 3.png" in found["files-equal"].what


def test_proportions_and_small_pictures(tmp_path: Path) -> None:
    arrays = [photograph(i, 128, 48) for i in range(12)] + [photograph(i, 16, 12) for i in range(8)]
    found = findings(folder(tmp_path, arrays))
    assert "12 of 20" in found["pictures-stretched"].what
    assert "by up to 2.0" in found["pictures-stretched"].what
    assert found["pictures-stretched"].changes == {"resize_fit": "pad"}
    assert "8 of 20" in found["pictures-small"].what
    padded = Preprocess(SOUND.mean, SOUND.std, resize_fit="pad")
    assert "pictures-stretched" not in findings(folder(tmp_path, arrays), RGB, padded)


def arrays_of(path: Path, arrays: list[np.ndarray]) -> Dataset:
    for index, array in enumerate(arrays):
        np.save(path / f"{index}.npy", array)
    return dataset_from_paths([path / f"{i}.npy" for i in range(len(arrays))], 1)


def test_arrays(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    good = [rng.uniform(0, 255, (48, 64, 3)).astype(np.float32) for _ in range(18)]
    broken = good[0].copy()
    broken[3, 4] = np.nan, np.inf, 1
    found = findings(arrays_of(tmp_path, [*good, broken, np.zeros_like(broken)]), RGB, Preprocess())
    assert found["npy-not-finite"].severity == "error"
    assert "18.npy (2 values)" in found["npy-not-finite"].what
    assert "19.npy (0)" in found["npy-constant"].what
    assert "npy-pixels" in found
    assert list(findings(arrays_of(tmp_path, [*good, good[0] / 2, good[1] / 2]))) == []
    slip = Preprocess(((0.5,),), ((0.5,),))
    assert findings(arrays_of(tmp_path, good), RGB, slip)["mean-std-of-fractions"].changes
    fractions = [array / 255 for array in good]
    assert "mean-std-of-fractions" not in findings(arrays_of(tmp_path, fractions), RGB, slip)


def test_an_array_in_another_order_is_told_how_to_turn(tmp_path: Path) -> None:
    dataset = arrays_of(tmp_path, [np.zeros((64, 48, 3), np.float32)])
    (problem,) = check(dataset, [RGB], SOUND).problems
    assert "another order" in problem.cause
    assert "transpose(2, 1, 0)" in problem.remedy


def test_two_channels_take_arrays_only(tmp_path: Path) -> None:
    two = TensorSpec("image", (1, 2, 48, 64), "float32")
    (problem,) = check(folder(tmp_path, [photograph(0)]), [two], Preprocess()).problems
    assert "npy files only" in problem.what
    dataset = arrays_of(tmp_path, [np.ones((1, 48, 64, 2), np.float32)])
    assert check(dataset, [two], Preprocess()).problems == ()


def test_the_look_is_bounded_and_spread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspect, "MOST", 5)
    arrays = [photograph(i) for i in range(10)] + [photograph(i)[..., 1] for i in range(10)]
    found = findings(folder(tmp_path, arrays))
    assert "2 of 5 images" in found["pictures-grey"].what


def test_4_gb_of_arrays_take_little_memory(tmp_path: Path) -> None:
    """Sparse files: what is looked at is read a part at a time."""
    shape = (1, 1024, 1024, 256)
    for index in range(4):
        path = tmp_path / f"{index}.npy"
        with path.open("wb") as stream:
            np.lib.format.write_array_header_1_0(
                stream, {"descr": "<f4", "fortran_order": False, "shape": shape}
            )
            stream.truncate(stream.tell() + 4 * int(np.prod(shape)))
    dataset = dataset_from_paths([tmp_path / f"{i}.npy" for i in range(4)], 1)
    tracemalloc.start()
    facts = check(dataset, [TensorSpec("x", shape, "float32")], Preprocess())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (facts.arrays, facts.problems) == (4, ())
    assert "npy-constant" in {f.code for f in facts.findings}
    assert peak < 160 << 20


@pytest.mark.parametrize(("count", "hinted"), [(7, False), (8, True)])
def test_a_hint_about_the_order_of_channels_needs_eight_pictures(
    count: int, hinted: bool, tmp_path: Path
) -> None:
    turned = [photograph(i)[..., ::-1] for i in range(count)]
    assert ("pictures-look-turned" in findings(folder(tmp_path, turned))) == hinted


def test_at_most_64_samples_are_inspected_spread_over_all(tmp_path: Path) -> None:
    dataset = folder(tmp_path, [np.full((8, 8, 3), i, np.uint8) for i in range(130)])
    looked = inspect.inspect_samples(dataset, SOUND.plans([RGB]))
    assert len(looked.images[0]) == 64
    assert looked.images[0][-1].mean[0] > 125


@pytest.mark.parametrize(("away", "gray"), [(1, True), (3, False)])
def test_a_picture_is_grey_up_to_a_difference_of_two(away: int, gray: bool, tmp_path: Path) -> None:
    pixels = np.full((8, 8, 3), 100, np.uint8)
    pixels[..., 2] += np.uint8(away)
    dataset = folder(tmp_path, [pixels])
    (stats,) = inspect.inspect_samples(dataset, SOUND.plans([RGB])).images[0]
    assert stats.gray == gray
    assert stats.mean == (100, 100, 100 + away)
