"""The vendor's toolkit where it is set up, and the nets of the shared benchmark."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.vendor.nets import Net, load_net
from tests.vendor.toolkit import Toolkit

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "make_vendor_environment.py"

# The environment is found from the user's home, which every test hides.
_ENVIRONMENT = dict(os.environ)


@pytest.fixture(scope="session")
def vendor_python() -> Path:
    """The interpreter that ``scripts/make_vendor_environment.py`` made."""
    found = subprocess.run(
        [sys.executable, str(SCRIPT), "--check"],
        capture_output=True,
        text=True,
        env=_ENVIRONMENT,
        check=False,
    )
    if found.returncode:
        pytest.skip(f"{found.stderr.strip()}: run scripts/make_vendor_environment.py")
    return Path(found.stdout.strip())


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
