"""Post-processing in C++ and in Python: the same lines for the same outputs."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.export.codegen.heads import FORMS, PICTURE
from tests.export.codegen.projects import generate, project_of, well

DRIVER = Path(__file__).with_name("driver.cpp")
SOURCES = ("tensor", "postprocess", "detections")


def by_cpp(path: Path) -> list[str]:
    sources = [path / "src" / f"{name}.cpp" for name in SOURCES]
    words = ["-std=c++11", "-O0", "-Wall", "-Wextra", "-Werror", f"-I{path / 'src'}"]
    compiler = shutil.which("g++") or shutil.which("c++")
    assert compiler
    well(compiler, *words, "-o", path / "alone", DRIVER, *(s for s in sources if s.exists()))
    return well(path / "alone", path / "data", cwd=path).rstrip("\n").split("\n")


BY_PYTHON = """
import glob, sys
import numpy as np
from postprocess import postprocess
from preprocess import Placement
files = sorted(glob.glob("data/sample0/output*.npy"), key=lambda f: int(f[19:-4]))
print("\\n".join(postprocess([np.load(f) for f in files], "data", Placement())))
"""


def by_python(path: Path) -> list[str]:
    told = well(sys.executable, "-c", BY_PYTHON, cwd=path, PYTHONPATH=str(path))
    return told.rstrip("\n").split("\n")


def numbers(line: str) -> list[float]:
    return [float(each) for each in re.findall(r"-?\d+(?:\.\d+)?", line)]


@pytest.mark.long
@pytest.mark.cc
@pytest.mark.parametrize("form", FORMS)
def test_the_same_lines(form: str, tmp_path: Path) -> None:
    task, make, details = FORMS[form]
    outputs = make(np.random.default_rng(11))
    project = project_of(outputs, picture=PICTURE)
    for language in ("cpp", "python"):
        generate(project, tmp_path / language, task, language, **details)
    first, second = by_cpp(tmp_path / "cpp"), by_python(tmp_path / "python")
    assert len(first) == len(second)
    assert len(first) >= 2, "too little is found to tell anything"
    for one, other in zip(first, second, strict=True):
        assert numbers(one)[0] == numbers(other)[0]
        # the last printed digit may be rounded the other way
        assert numbers(one) == pytest.approx(numbers(other), abs=0.0101)
    if task == "segmentation":
        maps = [(tmp_path / each / "segmentation.pgm").read_bytes() for each in ("cpp", "python")]
        assert maps[0] == maps[1]
