"""Compiled models encrypted: what no runtime would open is refused, the rest by the toolkit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.base.errors import (
    ContainerError,
    OutputExistsError,
    ToolkitError,
    UsageError,
)
from engine.container.vendor import inspect_vendor
from engine.export.encryption import encrypt_compiled, encrypt_model
from engine.toolkit.environments import find
from tests.container.vendor.build import container, first_generation, npu
from tests.toolkit.standin import make_environment


def refused(data: bytes, tmp_path: Path, says: str) -> None:
    path = tmp_path / "net.rknn"
    path.write_bytes(data)
    with pytest.raises((UsageError, ContainerError), match=says) as caught:
        encrypt_model(path)
    assert caught.value.remedy
    assert [one.name for one in tmp_path.iterdir()] == ["net.rknn"]


def test_what_no_runtime_would_open(tmp_path: Path) -> None:
    refused(npu(s8="rv1106"), tmp_path, "for rv1106, whose runtime opens no encrypted models")
    refused(npu(s8="rk2118"), tmp_path, "for rk2118")
    first = container(2, b"", json.dumps(first_generation()).encode())
    refused(first, tmp_path, "no compiled model of generation 2")
    secret = b"CYPTRKNN" + bytes(8) + (2).to_bytes(8, "little") + bytes(200)
    refused(secret, tmp_path, "encrypted already")
    refused(b"hello" * 30, tmp_path, "could not|no|not")


def test_without_a_toolkit_it_says_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "net.rknn"
    path.write_bytes(npu())
    with pytest.raises(ToolkitError, match="rknn-toolkit2") as caught:
        encrypt_model(path)
    assert "rknntui vendor install" in caught.value.remedy
    (tmp_path / "net.crypt.rknn").write_bytes(b"x")
    with pytest.raises(OutputExistsError):  # told before the toolkit is looked for
        encrypt_model(path)


def test_a_toolkit_that_does_not_do_it(tmp_path: Path) -> None:
    """That of generation 1 has no such method; its process and its folder go."""
    environment = make_environment(tmp_path / "environment")
    path = tmp_path / "net.rknn"
    path.write_bytes(npu())
    with pytest.raises(ToolkitError, match="no method export_encrypted_rknn_model"):
        encrypt_compiled(path, tmp_path / "out.rknn", 1, environment=environment)
    assert not (tmp_path / "out.rknn").exists()


@pytest.mark.vendor
@pytest.mark.long
def test_the_real_toolkit(toolkit2: Path, zoo: Path, tmp_path: Path) -> None:
    for level in (1, 2, 3):
        source = zoo / "rknn_vendor/dual_residual_RK3566_RK3568.rknn"
        output = tmp_path / f"{level}.rknn"
        made = encrypt_model(source, output, level)
        found = inspect_vendor(output)
        assert (found.kind, found.encryption_level) == ("encrypted", level)
        assert (made.ours, made.toolkit) == (False, f"rknn-toolkit2 {find(2).version}")
        assert made.size == output.stat().st_size > source.stat().st_size
    with pytest.raises(UsageError, match="encrypted already"):
        encrypt_model(output)
