from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from engine.base.cache import LruCache, StageCache, cache_limit

FILES = {"a.bin": b"\0" * 1000, "b.json": b"{}"}


def test_what_was_put_comes_back(tmp_path: Path) -> None:
    cache = StageCache(tmp_path / "cache")
    assert cache.get("load", "k") is None
    cache.put("load", "k", FILES)
    assert cache.get("load", "k") == FILES
    assert StageCache(tmp_path / "cache").get("load", "k") == FILES
    assert cache.get("load", "other") is None
    assert cache.get("optimise", "k") is None
    assert cache.finding is None


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("a.bin", b"\0" * 999 + b"\1"),
        ("a.bin", b"\0" * 999),
        ("a.bin", None),
        ("index.json", b"{"),
        ("index.json", b'{"files": 3}'),
        ("index.json", None),
    ],
)
def test_a_damaged_entry_is_dropped(tmp_path: Path, file: str, content: bytes | None) -> None:
    cache = StageCache(tmp_path)
    cache.put("load", "k", FILES)
    folder = tmp_path / "load-k"
    if content is None:
        (folder / file).unlink()
    else:
        (folder / file).write_bytes(content)
    assert cache.get("load", "k") is None
    assert not folder.exists()
    cache.put("load", "k", FILES)
    assert cache.get("load", "k") == FILES


def test_the_index_cannot_point_out_of_its_folder(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")
    cache = StageCache(tmp_path / "cache")
    cache.put("load", "k", FILES)
    index = tmp_path / "cache" / "load-k" / "index.json"
    index.write_text(json.dumps({"files": {"../../secret": "0"}, "size": 1}))
    assert cache.get("load", "k") is None
    assert secret.exists()


def test_the_oldest_goes_first(tmp_path: Path) -> None:
    cache = StageCache(tmp_path, limit=4000)
    for age, key in ((300, "old"), (200, "middle")):
        cache.put("load", key, FILES)
        os.utime(tmp_path / f"load-{key}", (1e9 - age, 1e9 - age))
    assert cache.get("load", "old") is not None  # a look makes it young again
    cache.put("load", "new", FILES)
    cache.put("load", "newer", FILES)
    kept = {p.name for p in tmp_path.glob("load-*")}
    assert "load-middle" not in kept
    assert "load-newer" in kept
    assert sum(f.stat().st_size for f in tmp_path.rglob("*") if f.is_file()) <= 4000


def test_what_is_larger_than_the_cache_is_not_kept(tmp_path: Path) -> None:
    cache = StageCache(tmp_path / "none", limit=100)
    cache.put("load", "k", FILES)
    assert not (tmp_path / "none").exists()
    assert cache.finding is None


def test_leftovers_of_a_killed_process_go(tmp_path: Path) -> None:
    cache = StageCache(tmp_path)
    cache.put("load", "k", FILES)
    stale, fresh = tmp_path / ".part-stale", tmp_path / ".part-fresh"
    for part in (stale, fresh):
        part.mkdir()
        (part / "a.bin").write_bytes(b"x")
    os.utime(stale, (1e9, 1e9))
    cache.prune()
    assert not stale.exists()
    assert fresh.exists()


@pytest.mark.parametrize("place", ["/proc/nowhere", "/dev/null/x", "/sys/fs/x"])
def test_a_cache_that_cannot_be_written_costs_a_finding(place: str) -> None:
    cache = StageCache(Path(place), limit=1 << 30)
    cache.put("load", "k", FILES)
    assert cache.get("load", "k") is None
    assert cache.finding is not None
    assert cache.finding.code == "cache-not-written"
    assert cache.finding.remedy


def test_many_writers_and_readers_of_one_key(tmp_path: Path) -> None:
    seen: list[object] = []

    def work() -> None:
        cache = StageCache(tmp_path)
        for number in range(20):
            cache.put("load", f"k{number % 3}", FILES)
            seen.append(cache.get("load", f"k{number % 3}"))
        seen.append(cache.finding)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(found in (None, FILES) for found in seen)  # type: ignore[comparison-overlap]
    assert StageCache(tmp_path).get("load", "k0") == FILES
    assert not list(tmp_path.glob(".part-*"))


def test_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert 0 < cache_limit(tmp_path / "not" / "there") <= 2_000_000_000
    monkeypatch.setenv("RKNNTUI_CACHE_MB", "7")
    assert cache_limit(tmp_path) == 7_000_000
    monkeypatch.setenv("RKNNTUI_CACHE_MB", "a lot")
    assert cache_limit(tmp_path) <= 2_000_000_000


def test_memory_forgets_what_was_not_used_for_longest() -> None:
    memory = LruCache(2)
    memory.put("a", 1)
    memory.put("b", 2)
    assert memory.get("a") == 1
    memory.put("c", 3)
    assert memory.get("b") is None
    assert (memory.get("a"), memory.get("c")) == (1, 3)


def test_memory_keeps_within_its_bytes() -> None:
    memory = LruCache(10, limit=100)
    memory.put("a", 1, 60)
    memory.put("a", 1, 50)
    memory.put("b", 2, 50)
    assert (memory.get("a"), memory.get("b")) == (1, 2)
    memory.put("c", 3, 1)
    assert memory.get("a") is None
    memory.put("large", 4, 1000)
    assert memory.get("large") == 4
    assert memory.get("b") is None


def test_a_link_to_a_device_without_end_is_no_result(tmp_path: Path) -> None:
    cache = StageCache(tmp_path)
    for name in ("a.bin", "index.json"):
        cache.put("load", "k", FILES)
        (tmp_path / "load-k" / name).unlink()
        (tmp_path / "load-k" / name).symlink_to("/dev/zero")
        assert cache.get("load", "k") is None
        assert not (tmp_path / "load-k").exists()


def test_a_file_larger_than_its_index_says_is_not_read(tmp_path: Path) -> None:
    cache = StageCache(tmp_path)
    cache.put("load", "k", FILES)
    with (tmp_path / "load-k" / "a.bin").open("r+b") as stream:
        stream.truncate(1 << 40)  # sparse: reading it would take all memory
    assert cache.get("load", "k") is None
