"""Two chips compiled by the vendor's own toolkit, a project, an encrypted file, by keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from rknntui.app import Workbench
from tests.tui.conftest import until
from tests.tui.flow import write_recipe
from tests.tui.test_chips_made import SIZE, two_chips_project_encrypted

# a worker of its own: one that is there does not know the toolkit
pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.long,
    pytest.mark.vendor,
    pytest.mark.usefixtures("toolkit2"),
]


async def test_two_chips_are_compiled_by_the_toolkit_and_the_project_has_its_model(
    demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    app = Workbench(str(write_recipe(tmp_path, demo)), state_kept=False)
    async with app.run_test(size=SIZE) as pilot:
        press = await two_chips_project_encrypted(pilot, app)
        assert len(press.pressed) <= 16, press.pressed
        encrypted = tmp_path / "digits_demo-rk3576.crypt.rknn"
        await until(pilot, encrypted.is_file, "the encrypted model")
        models = (tmp_path / "digits_demo-cpp" / "model").glob("*.rknn")
        assert list(models), "the compiled model is in the project"
        assert app.session.layers.of("compiled")
