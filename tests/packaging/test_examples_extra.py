"""The extra ``examples``: what the vendor's example scripts import."""

from __future__ import annotations

import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

# module -> its package: what the scripts in the vendor's examples and model zoo import beside
# numpy, Pillow, onnx and PyTorch
IMPORTED = {
    "cv2": "opencv-python-headless",
    "matplotlib": "matplotlib",
    "scipy": "scipy",
    "torchvision": "torchvision",
}


@pytest.fixture(scope="module")
def extras(repository: Path) -> dict[str, dict[str, Requirement]]:
    project = tomllib.loads((repository / "pyproject.toml").read_text("utf-8"))["project"]
    return {
        extra: {one.name: one for one in map(Requirement, listed)}
        for extra, listed in project["optional-dependencies"].items()
    }


def test_it_brings_what_the_scripts_import(
    extras: dict[str, dict[str, Requirement]], repository: Path
) -> None:
    assert set(extras["examples"]) == set(IMPORTED.values())
    page = (repository / "docs" / "installation.md").read_text("utf-8")
    for module in IMPORTED:
        assert f"`{module}`" in page


def test_it_goes_together_with_the_other_extras(
    extras: dict[str, dict[str, Requirement]],
) -> None:
    """Torchvision 0.N is made for one torch 2.M, M = N - 15; OpenCV's is the one of the tests."""
    (torch,) = (each.version for each in extras["torch"]["torch"].specifier)
    (vision,) = (each.version for each in extras["examples"]["torchvision"].specifier)
    assert int(torch.split(".")[1]) == int(vision.split(".")[1]) - 15
    cv2 = extras["examples"]["opencv-python-headless"].specifier
    assert cv2.contains(metadata.version("opencv-python-headless"))
