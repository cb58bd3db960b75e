"""Which files make up a dataset, in which order: ``dataset.txt``, a folder, or paths by hand.

Format: the vendor's `build(dataset=...)` [RKNN-T1 1.3.2, 3.6.4; RKNN-T2 2.3.0, 2.4]: a line a
sample, one path per input, split by blanks. It has no comments; blank lines are skipped, a byte
order mark and CRLF are tolerated.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.base.errors import DatasetError, OutputExistsError
from engine.base.events import Reporter
from engine.base.files import atomic_write
from engine.base.text import human_bytes, sanitize
from engine.dataset.decode import named, reject_device_file
from engine.dataset.folder import sample_images

LIST_LIMIT = 64 << 20
_BOM = b"\xef\xbb\xbf"
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Dataset:
    """The files of a dataset; what they hold is read when it is needed.

    Attributes:
        path: the ``dataset.txt`` or the folder; None for paths given by hand.
        entries: sample -> one file per input.
        lines: sample -> its line in ``path``, from 1; empty where there are no lines.
        skipped: (file, why) of pictures of a folder that could not be used.
    """

    path: Path | None
    entries: tuple[tuple[Path, ...], ...]
    lines: tuple[int, ...] = ()
    skipped: tuple[tuple[Path, str], ...] = ()

    def __len__(self) -> int:
        """Number of samples."""
        return len(self.entries)

    def where(self, index: int) -> str:
        """How messages name a sample: ``dataset.txt line 3`` or ``sample 3``."""
        if self.lines and self.path is not None:
            return f"{sanitize(self.path.name, 80)} line {self.lines[index]}"
        return f"sample {index + 1}"

    def first(self, count: int) -> Dataset:
        """The dataset of the first ``count`` samples."""
        return Dataset(self.path, self.entries[:count], self.lines[:count], self.skipped)


def read_dataset(
    path: Path, *, count: int = 100, seed: int = 0, reporter: Reporter | None = None
) -> Dataset:
    """The dataset of a ``dataset.txt``, or of a folder of pictures.

    Args:
        path: the list, whose relative paths start at its own folder; or a folder.
        count, seed: for a folder, how many pictures are taken and how they are chosen, by the same
            rule as :func:`engine.dataset.make_dataset`.
        reporter: asked between pictures of a folder whether to stop.

    Raises:
        DatasetError: missing, unreadable, not text, without samples; names the line.
    """
    if path.is_dir():
        folder = path.absolute()
        chosen = sample_images(folder, count, seed, reporter)
        return Dataset(path, tuple((p,) for p in chosen.files), (), chosen.skipped)
    entries: list[tuple[Path, ...]] = []
    lines: list[int] = []
    folder = path.parent
    try:
        reject_device_file(path)
        size = path.stat().st_size
        if size > LIST_LIMIT:
            raise DatasetError(
                f"{named(path)} has {human_bytes(size)}; a dataset list is read up to 64 MiB.",
                cause="It is probably not a list of files.",
                remedy="Give a text file with one sample per line, or a folder of images.",
            )
        with path.open("rb") as stream:
            for number, raw in enumerate(stream, 1):
                words = (raw.removeprefix(_BOM) if number == 1 else raw).split()
                if b"\0" in raw:
                    raise _not_text(path, number)
                if words:
                    entries.append(tuple(folder / os.fsdecode(word) for word in words))
                    lines.append(number)
    except FileNotFoundError as error:
        raise DatasetError(
            f"The dataset {named(path)} does not exist.",
            remedy="Check the path; `rknntui dataset make FOLDER` writes one from a folder.",
        ) from error
    except OSError as error:
        raise DatasetError(
            f"The dataset {named(path)} could not be read: {error.strerror or error}.",
            remedy="Check that it is a file and that you have permission to read it.",
        ) from error
    if not entries:
        raise DatasetError(
            f"The dataset {named(path)} has no samples.",
            cause="It is empty or has only blank lines.",
            remedy="Write one sample per line: the path of an image or npy file per input.",
        )
    return Dataset(path, tuple(entries), tuple(lines))


def _not_text(path: Path, line: int) -> DatasetError:
    return DatasetError(
        f"{named(path)} is not a text file (a zero byte in line {line}).",
        cause="An image, an array or a text in UTF-16 was given where a list of files belongs.",
        remedy="Give a text file in UTF-8 with one sample per line, or a folder of images.",
    )


def dataset_from_paths(paths: Sequence[Path], inputs: int) -> Dataset:
    """Samples from files named by hand, one after the other for each of ``inputs`` inputs.

    Raises:
        DatasetError: no file, or the number of files is no multiple of ``inputs``.
    """
    if not paths or len(paths) % inputs:
        raise DatasetError(
            f"{len(paths)} files were given for {inputs} inputs.",
            remedy=f"Give one file per input, {inputs} for each sample.",
        )
    entries = (tuple(paths[i : i + inputs]) for i in range(0, len(paths), inputs))
    return Dataset(None, tuple(entries))


def file_digest(path: Path) -> str:
    """Hexadecimal SHA-256 of a file; DatasetError where it cannot be read."""
    digest = hashlib.sha256()
    try:
        reject_device_file(path)
        with path.open("rb") as stream:
            while chunk := stream.read(_CHUNK):
                digest.update(chunk)
    except OSError as error:
        raise DatasetError(
            f"{named(path)} could not be read: {error.strerror or error}.",
            cause="The dataset names a file that is missing or unreadable.",
            remedy="Correct or remove its line.",
        ) from error
    return digest.hexdigest()


def with_line(dataset: Dataset, index: int, error: DatasetError) -> DatasetError:
    """An error about a file, with the sample's place in the dataset."""
    return DatasetError(
        f"{dataset.where(index)}: {error.what}", cause=error.cause, remedy=error.remedy
    )


def dataset_digest(dataset: Dataset) -> str:
    """Hexadecimal SHA-256 of what the samples hold, in their order; names and places do not matter.

    Raises:
        DatasetError: a file is missing or unreadable; names its line.
    """
    digest = hashlib.sha256()
    for index, entry in enumerate(dataset.entries):
        try:
            text = " ".join(file_digest(path) for path in entry)
        except DatasetError as error:
            raise with_line(dataset, index, error) from error
        digest.update(f"{text}\n".encode("ascii"))
    return digest.hexdigest()


# ``dataset.txt`` from a folder of pictures.


@dataclass(frozen=True)
class MadeDataset:
    """A list that was written.

    Attributes:
        dataset: what it holds.
        found: number of pictures in the folder, chosen or not.
    """

    dataset: Dataset
    found: int


def make_dataset(
    folder: Path, out: Path, count: int = 100, seed: int = 0, force: bool = False
) -> MadeDataset:
    """Write a list of ``count`` pictures of ``folder`` (recursive), chosen by ``seed``.

    Paths are written relative to the list's own folder, so that both can be moved together.

    Raises:
        DatasetError: not a folder, no readable picture, or only paths with spaces.
        OutputExistsError: ``out`` exists and ``force`` is false.
        OutputError: ``out`` cannot be written.
    """
    if out.exists() and not force:
        raise OutputExistsError(
            f"{out} exists already.",
            remedy="Allow overwriting (--force) or choose another name.",
        )
    # ".." is only right from the real place of the list, so links are resolved
    start = out.parent.resolve()
    chosen = sample_images(folder.resolve(), count, seed, list_in=start)
    names = [os.path.relpath(path, start) for path in chosen.files]
    text = "".join(f"{name}\n" for name in names)
    atomic_write(out, os.fsencode(text), overwrite=force)
    dataset = Dataset(
        out,
        tuple((out.parent / name,) for name in names),
        tuple(range(1, len(names) + 1)),
        chosen.skipped,
    )
    return MadeDataset(dataset, chosen.found)
