"""The vendor's toolkit where it is set up, and the nets of the shared benchmark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from engine.services.state import WORKER_STATE
from tests.vendor.nets import Net, load_net
from tests.vendor.toolkit import Toolkit


@pytest.fixture(scope="session")
def vendor_python(vendor_folder: Path) -> Path:
    """The interpreter of the toolkit's environment."""
    return vendor_folder / "bin" / "python"


@pytest.fixture
def vendor_home(vendor_python: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The toolkit of the tests, in a home that is empty."""
    monkeypatch.setenv("RKNNTUI_VENDOR", str(vendor_python.parents[1]))
    WORKER_STATE.clear()


@pytest.fixture(scope="session")
def toolkit(
    vendor_python: Path, tmp_path_factory: pytest.TempPathFactory, session_home: Path
) -> Iterator[Toolkit]:
    """One process of the toolkit for all tests: importing it takes seconds."""
    opened = Toolkit(vendor_python, tmp_path_factory.mktemp("toolkit"))
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def net(shared: Path) -> Callable[[str], Net]:
    """Name -> a net of the benchmark, loaded and calibrated once."""
    return cache(lambda name: load_net(shared / "bench", name))
