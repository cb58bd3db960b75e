from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine.base.errors import SourceModelError
from engine.frontends import converter_process


@pytest.fixture(scope="session")
def installed() -> Iterator[None]:
    """TensorFlow is there; its warm child serves all tests and ends after them."""
    try:
        converter_process.require("tensorflow")
    except SourceModelError as error:
        pytest.skip(f"{error.what} {error.remedy}")
    yield
    converter_process.close("tensorflow")
