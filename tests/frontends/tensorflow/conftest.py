from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from engine.base.errors import SourceModelError
from engine.frontends import converter_process
from engine.frontends.converter_process import FRAMEWORKS


@pytest.fixture(scope="session")
def installed() -> Iterator[None]:
    """TensorFlow is there; its warm child serves all tests and ends after them."""
    try:
        converter_process.require("tensorflow")
    except SourceModelError as error:
        pytest.skip(f"{error.what} {error.remedy}")
    yield
    converter_process.close("tensorflow")


@pytest.fixture(scope="session")
def tf() -> Any:
    """TensorFlow in this process, computing as the child does."""
    before = dict(os.environ)
    os.environ |= FRAMEWORKS["tensorflow"].environment
    import tensorflow

    os.environ.clear()
    os.environ.update(before)
    return tensorflow
