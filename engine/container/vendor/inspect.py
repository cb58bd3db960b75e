"""Files of the vendor, of every kind and age: recognised by their bytes, read as far as known.

Nothing is run, code in a file is neither shown nor touched, and every size and offset is checked.
Which fact has which source: docs/vendor-files.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from engine.base.errors import ContainerError
from engine.base.files import sha256_of
from engine.base.findings import Finding
from engine.container.magic import MAGIC, unreadable_error
from engine.container.vendor.layer_list import read_layer_list
from engine.container.vendor.model import VendorMemory, VendorModel
from engine.container.vendor.npu import IDENTIFIER, read_mini, read_npu
from engine.container.vendor.package import is_package, read_custom_sections, read_package
from engine.container.vendor.rknx import NBG_MAGIC, RKNX_MAGIC, read_nbg, read_rknx
from engine.container.vendor.values import BoundedReader, as_mapping, open_bounded, read_json
from engine.facts import chip, chips

_CONTAINER_MAGIC = b"RKNN"
_CRYPT_MAGIC = b"CYPTRKNN"
_CRYPT_HEAD = 288
_RESERVED = 40
_SMALL_FORM = 0x10
_KNOWN_VERSIONS = (1, 2, 6, 0x1004)


def inspect_vendor(path: Path) -> VendorModel:
    """Everything that is known how to read of a file of the vendor.

    Raises:
        ContainerError: missing or unreadable; no file of the vendor, or a container of this
            program; damaged.
    """
    return replace(_inspected(path), sha256=_digest(path))


def _digest(path: Path) -> str:
    try:
        return sha256_of(path)
    except OSError as error:
        raise unreadable_error(path, error) from error


def vendor_origin(path: Path) -> str:
    """Where a file of the vendor comes from and belongs, in words; empty where it does not tell.

    ``for rk3588, by toolkit 1.6.2-source_code``
    """
    try:
        model = _inspected(path)
    except ContainerError:
        return ""
    words = [f"for {', '.join(model.platforms)}"] if model.platforms else []
    if model.toolkit:
        words.append(f"by toolkit {model.toolkit}")
    return ", ".join(words)


def _inspected(path: Path) -> VendorModel:
    with open_bounded(path) as span:
        base = VendorModel(str(path), span.size, "", "npu")
        head = span.head(64)
        for matches, read in _KINDS:
            if matches(head):
                return _finished(read(span, base))
        return _finished(_read_bare_json(span, base))


def _finished(model: VendorModel) -> VendorModel:
    """The chips' own names, the generation that they tell, and what is odd about them."""
    known = [(name, chip(name)) for name in model.platforms]
    unknown = [name for name, recognised in known if recognised is None]
    recognised = [known_chip for _, known_chip in known if known_chip is not None]
    generation = model.generation
    if generation is None and recognised:
        generation = recognised[0].generation
    findings = [
        Finding(
            "platform-unknown",
            "warning",
            "target_platform",
            f"{name} is not a chip that is known here.",
            remedy=f"Known are {', '.join(known_chip.name for known_chip in chips())}.",
        )
        for name in unknown
    ]
    names = tuple(dict.fromkeys(known_chip.name for known_chip in recognised))
    everything = (*model.findings, *findings)
    return replace(model, chips=names, generation=generation, findings=everything)


def _read_package(span: BoundedReader, base: VendorModel) -> VendorModel:
    package = read_package(span)
    return replace(
        base,
        kind="op-package",
        platforms=(package.target_platform,) if package.target_platform else (),
        generation=1,
        container_version=2,
        framework=package.framework,
        name=package.name,
        memory=VendorMemory(sections=package.sections),
        custom_operators=(package,),
    )


def _read_encrypted(span: BoundedReader, base: VendorModel) -> VendorModel:
    _, level, size = span.unpack("3Q", 8, "the head")
    findings = []
    if size != span.size - _CRYPT_HEAD:
        what = f"Its head tells of {size} bytes behind it, but there are {span.size - _CRYPT_HEAD}."
        findings.append(
            Finding("encrypted-size", "warning", "head", what, "It may have been cut off.")
        )
    findings.append(
        Finding(
            "encrypted",
            "info",
            "file",
            "It is encrypted: platform, versions, layers and names cannot be seen.",
            remedy="Inspect the model that it was made from.",
        )
    )
    return replace(base, kind="encrypted", encryption_level=level, findings=tuple(findings))


def _read_bare_npu(span: BoundedReader, base: VendorModel) -> VendorModel:
    return replace(read_npu(span.inner(0, span.size, "the graph"), base), kind="npu-bare")


def _read_bare_json(span: BoundedReader, base: VendorModel) -> VendorModel:
    if span.head(64).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] != b"{":
        raise ContainerError(
            f"{span.name} is not a file of the vendor.",
            cause="It starts with none of the bytes that the vendor's files start with.",
            remedy="Check the path.",
        )
    part = span.inner(0, span.size, "the layer list")
    data = as_mapping(read_json(part))
    if not data.get("network_platform"):
        raise part.damaged_error(
            "there is no network_platform, which every model of the vendor has"
        )
    return read_layer_list(data, part, replace(base, kind="layers-bare"))


def _read_container(span: BoundedReader, base: VendorModel) -> VendorModel:
    """``RKNN``, u32, u64 version, u64 D, 40 bytes, D bytes of data, u64 J, J bytes of JSON."""
    version, size = span.unpack("QQ", 8, "the head")
    if version >> 8 not in (0, _SMALL_FORM):
        raise span.damaged_error(f"its container has version {version}, which is not known")
    start = 24 + (_RESERVED if version & 0xFF > 1 and size else 0)
    data = span.inner(start, size, "the compiled model")
    (count,) = span.unpack("Q", start + size, "the length of the layer list")
    json = span.inner(start + size + 8, count, "the layer list")
    listed = read_layer_list(
        as_mapping(read_json(json)), json, replace(base, container_version=version)
    )
    model = _with_data(listed, data, small=version >> 8 == _SMALL_FORM)
    findings, operators = list(model.findings), model.custom_operators
    sections = [("compiled model", size), ("layer list", count), *model.memory.sections]
    if version not in _KNOWN_VERSIONS:
        what = f"Its container has version {version}; the form is taken for a known one."
        findings.append(Finding("container-version", "warning", "head", what))
    end = start + size + 8 + count
    if end < span.size and listed.generation == 1:
        operators, code = read_custom_sections(span, end)
        sections.append(("code of custom operators", code))
    elif end < span.size:
        what = f"{span.size - end} bytes follow the layer list; what they are is not known."
        findings.append(Finding("trailing-bytes", "warning", "end of the file", what))
    return replace(
        model,
        custom_operators=operators,
        memory=replace(model.memory, sections=tuple(sections)),
        findings=tuple(findings),
    )


def _with_data(listed: VendorModel, data: BoundedReader, *, small: bool) -> VendorModel:
    """What a layer list tells, with the compiled model before it."""
    if small:
        return read_mini(data, listed)
    if data.head(8)[4:] == IDENTIFIER:
        return read_npu(data, listed)
    if data.head(4) == NBG_MAGIC:
        return read_nbg(data, listed)
    findings = listed.findings
    if data.size:
        what = f"{data.size} bytes of compiled model are of no kind that is known."
        findings = (*findings, Finding("data-unknown", "warning", "compiled model", what))
    return replace(listed, kind="layers", findings=findings)


def _read_ours(span: BoundedReader, _base: VendorModel) -> VendorModel:
    raise ContainerError(
        f"{span.name} is a container of this program, not a file of the vendor.",
        remedy="Open it as a model.",
    )


_Read = Callable[[BoundedReader, VendorModel], VendorModel]


def _starts(magic: bytes, offset: int = 0) -> Callable[[bytes], bool]:
    return lambda head: head[offset : offset + len(magic)] == magic


def _package(head: bytes) -> bool:
    return is_package(BoundedReader(head, 0, len(head), "", ""))


# in the order in which the viewer Netron asks; an own container and a package start as models do
_KINDS: tuple[tuple[Callable[[bytes], bool], _Read], ...] = (
    (lambda head: head[:4] == _CONTAINER_MAGIC and head[24:32] == MAGIC, _read_ours),
    (_package, _read_package),
    (_starts(_CONTAINER_MAGIC), _read_container),
    (_starts(RKNX_MAGIC), read_rknx),
    (_starts(_CRYPT_MAGIC), _read_encrypted),
    (_starts(IDENTIFIER, 4), _read_bare_npu),
    (_starts(NBG_MAGIC), read_nbg),
)
