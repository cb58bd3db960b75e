"""A file of the vendor's, made of its bytes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.base.errors import ContainerError
from engine.container.vendor import VendorModel, inspect_vendor
from tests.safety import ends


@pytest.fixture
def inspected(tmp_path: Path) -> Callable[[bytes], VendorModel]:
    """Inspects a file of these bytes, ``a.rknn``."""

    def inspect(data: bytes) -> VendorModel:
        path = tmp_path / "a.rknn"
        path.write_bytes(data)
        return inspect_vendor(path)

    return inspect


@pytest.fixture
def refused(inspected: Callable[[bytes], VendorModel]) -> Callable[..., ContainerError]:
    """The error of a file of these bytes, which says something."""

    def refuse(data: bytes, says: str | None = None) -> ContainerError:
        __tracebackhide__ = True
        with ends(), pytest.raises(ContainerError, match=says) as caught:
            inspected(data)
        return caught.value

    return refuse
