"""Files of the board: read, watched, digested, and the clocks that are files there too."""

import errno
import glob
import hashlib
import json
import os
import stat
import struct
import time
from typing import Any, Dict, List, Optional

from engine.base.peers.far import Message, Refused

__all__ = [
    "STORAGE",
    "Clocks",
    "board_path",
    "digest",
    "is_cut_off",
    "read",
    "storage_error",
    "text_parameter",
    "watch",
    "write_whole",
]

STORAGE = "device storage"

_LIMIT = 1 << 20
_MATCHES = 256
_PT_LOAD = 1
_HEAD = 4096


def board_path(path: Any) -> str:
    """An absolute path of a message.

    Raises:
        Refused: it is none.
    """
    if not isinstance(path, str) or not path.startswith("/") or "\0" in path:
        raise Refused("{!r} is no absolute path.".format(path), kind="device")
    return path


def is_cut_off(path: str) -> bool:
    """Whether a library's file ends before what is loaded of it does, as after a copy that broke.

    Format: the System V ABI, segments of the kind ``PT_LOAD``.
    """
    try:
        with open(path, "rb") as stream:
            head = stream.read(_HEAD)
            size = os.fstat(stream.fileno()).st_size
        if head[:4] != b"\x7fELF" or head[4:5] not in (b"\1", b"\2"):
            return False  # the loader says what it is
        wide = head[4:5] == b"\2"
        (table,) = struct.unpack_from("<Q" if wide else "<I", head, 32 if wide else 28)
        step, count = struct.unpack_from("<HH", head, 54 if wide else 42)
        for at in range(table, table + step * count, step or 1):
            (kind,) = struct.unpack_from("<I", head, at)
            (offset,) = struct.unpack_from("<Q" if wide else "<I", head, at + (8 if wide else 4))
            (length,) = struct.unpack_from("<Q" if wide else "<I", head, at + (32 if wide else 16))
            if kind == _PT_LOAD and offset + length > size:
                return True
    except (struct.error, OverflowError):  # its table of segments lies behind what was read
        return size < _HEAD
    except OSError:
        pass
    return False


def text_parameter(params: Message, name: str) -> str:
    """A parameter that is text.

    Raises:
        Refused: it is not.
    """
    value = params.get(name)
    if not isinstance(value, str):
        raise Refused("The request lacks {!r}.".format(name), kind="device")
    return value


def storage_error(action: str, path: str, error: OSError) -> Refused:
    """A file that could not be read or written, with the remedy for the usual reasons."""
    remedies = {
        errno.ENOSPC: "Free some space on the board, or use another folder.",
        errno.EROFS: "Use a folder that can be written.",
        errno.EACCES: "Run as root, or use a folder of this user.",
        errno.EPERM: "Run as root, or use a folder of this user.",
    }
    what = "{} could not be {}: {}.".format(path, action, error.strerror or error)
    return Refused(what, "", remedies.get(error.errno or 0, ""), kind=STORAGE)


def write_whole(path: str, content: bytes) -> None:
    """Write a file under another name and rename it, so that it is whole or not there.

    Raises:
        Refused: it could not be written.
    """
    part = path + ".part"
    try:
        with open(part, "wb") as stream:
            stream.write(content)
        os.replace(part, path)
    except OSError as error:
        try:
            os.unlink(part)
        except OSError:
            pass
        raise storage_error("written", path, error) from error


def _content(real: str, limit: int) -> Optional[str]:
    """The text of a file; None for what is no file or cannot be read."""
    try:
        # a few files of /proc would wait for something to happen
        handle = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return None
        parts, left = [], limit  # type: List[bytes], int
        while left > 0:
            data = os.read(handle, left)  # a file of /proc may come in pieces
            if not data:
                break
            parts.append(data)
            left -= len(data)
        return b"".join(parts).decode("latin-1")
    except OSError:
        return None
    finally:
        os.close(handle)


def read(params: Message) -> Message:
    """``{path: text}`` of ``paths``, each at most ``limit`` bytes as latin-1, None where it is not.

    A ``*`` matches; a pattern that matches nothing is there with None.
    """
    paths = params.get("paths")
    limit = params.get("limit", _LIMIT)
    if not isinstance(paths, list) or not isinstance(limit, int):
        raise Refused("`read` takes a list of paths and a limit.", kind="device")
    found = {}  # type: Dict[str, Any]
    for path in paths[:_MATCHES]:
        real = board_path(path)
        matches = sorted(glob.glob(real))[:_MATCHES] if "*" in path else [real]
        if not matches:
            found[path] = None
        for match in matches:
            found[match] = _content(match, max(0, min(limit, _LIMIT)))
    return found


def watch(request: Any) -> Message:
    """Read again and again: progress ``{values, at}``, until it is cancelled or ``count`` times.

    ``at`` is the board's monotonic clock, in seconds.
    """
    interval = request.params.get("interval", 1.0)
    count = request.params.get("count")
    if not isinstance(interval, (int, float)) or not (count is None or isinstance(count, int)):
        raise Refused("`watch` takes an interval in seconds and a count.", kind="device")
    interval = min(max(float(interval), 0.02), 3600.0)
    done, due = 0, time.monotonic()
    while count is None or done < count:
        request.check_cancelled()
        request.progress({"values": read(request.params), "at": time.monotonic()})
        done += 1
        due = max(due + interval, time.monotonic())
        while done != count and time.monotonic() < due:
            request.check_cancelled()
            time.sleep(max(0.0, min(0.1, due - time.monotonic())))
    return {"samples": done}


def digest(params: Message) -> Message:
    """SHA-256 and size of the file ``path``."""
    path = text_parameter(params, "path")
    total, size = hashlib.sha256(), 0
    try:
        with open(board_path(path), "rb") as stream:
            for block in iter(lambda: stream.read(1 << 20), b""):
                total.update(block)
                size += len(block)
    except OSError as error:
        raise storage_error("read", path, error) from error
    return {"sha256": total.hexdigest(), "size": size}


class Clocks:
    """Governors and frequencies that were changed, and their values before."""

    def __init__(self) -> None:
        self._kept = []  # type: List[str]

    def write(self, params: Message) -> Message:
        """Write ``values``, pairs of path and text, in their order.

        What was there before is in the file ``keep`` before it changes. Values that an
        earlier, unfinished change left in that file stay: they are the real ones.
        """
        values, keep = params.get("values"), board_path(params.get("keep"))
        whole = isinstance(values, list) and all(
            isinstance(pair, list) and len(pair) == 2 and isinstance(pair[1], str)
            for pair in values
        )
        if not whole or not isinstance(values, list):
            raise Refused("`write_clocks` takes pairs of path and text.", kind="device")
        before = _kept_values(keep)
        earlier = frozenset(path for path, _text in before)
        known = set(earlier)
        changed, refused = [], []  # type: List[str], List[Any]
        write_whole(keep, _pairs(before))
        if keep not in self._kept:
            self._kept.append(keep)
        for path, text in values:
            # one after the other: userspace/set_freq is there once its governor was written
            old = _content(board_path(path), 4096)
            if old is None:
                refused.append([path, "it cannot be read"])
                continue
            if path not in known:
                known.add(path)
                before.append([path, old.strip()])
                write_whole(keep, _pairs(before))
            reason = _put(path, text)
            if reason:
                refused.append([path, reason])
            else:
                changed.append(path)
        untouched = {path for path, _reason in refused} - earlier
        write_whole(keep, _pairs([pair for pair in before if pair[0] not in untouched]))
        return {"changed": changed, "refused": refused}

    def restore(self, params: Message) -> Message:
        """Write back what the file ``keep`` holds, last first; it stays with what was refused."""
        keep = board_path(params.get("keep"))
        before = _kept_values(keep)
        changed, refused = [], []  # type: List[str], List[Any]
        for path, text in reversed(before):
            reason = _put(path, text)
            if reason:
                refused.append([path, reason])
            else:
                changed.append(path)
        if refused:
            write_whole(keep, _pairs([pair for pair in before if pair[0] not in changed]))
        else:
            try:
                os.unlink(keep)
            except OSError:
                pass
        if keep in self._kept:
            self._kept.remove(keep)
        return {"changed": changed, "refused": refused}

    def restore_all(self) -> None:
        """Write back whatever was changed here."""
        for keep in list(self._kept):
            self.restore({"keep": keep})


def _pairs(values: List[List[str]]) -> bytes:
    return json.dumps(values).encode("ascii")


def _kept_values(keep: str) -> List[List[str]]:
    """Pairs of path and text of a file that :meth:`Clocks.write` made; none where it is not."""
    text = _content(keep, _LIMIT)
    try:
        pairs = json.loads(text) if text else []
    except ValueError:
        return []
    if not isinstance(pairs, list):
        return []
    return [
        pair for pair in pairs if isinstance(pair, list) and list(map(type, pair)) == [str, str]
    ]


def _put(path: str, text: str) -> str:
    """Write a value; why not, where it could not be."""
    try:
        # no O_CREAT: what is not there is not adjustable
        handle = os.open(board_path(path), os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
        try:
            os.write(handle, text.encode("latin-1", "replace") + b"\n")
        finally:
            os.close(handle)
    except OSError as error:
        return error.strerror or str(error)
    except Refused as error:
        return str(error)
    return ""
