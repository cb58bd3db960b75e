"""Errors of the runtime library in words: what it returned, the likely cause and the remedy."""

from engine.base.peers.far import Refused
from engine.devices.agent.far_side.abi import ERRORS
from engine.devices.agent.far_side.noise import last_lines

__all__ = ["KIND", "explain"]

KIND = "runtime library"

_DOCTOR = "`rknntui doctor --device DEVICE` compares the versions."

_CODES = {
    -1: ("The runtime library gives no reason.", "Look at what it wrote, and at the kernel's log."),
    -2: (
        "The NPU did not finish in time: it hangs, or another program uses it.",
        "End other programs of the NPU and try again; if it stays, restart the board.",
    ),
    -3: (
        "The NPU's driver is not loaded, or its device file may not be opened.",
        "Run as root or as a member of the group render; look for rknpu or galcore in dmesg.",
    ),
    -4: (
        "The board has not enough memory for this model.",
        "End other programs, or enlarge the memory that is reserved for the NPU (CMA).",
    ),
    -5: (
        "The library does not know this call or an argument of it.",
        "It may be older than this program expects. " + _DOCTOR,
    ),
    -6: (
        "The file is no model of this runtime library, was built for a newer one, or is damaged.",
        "Build it for this board and for this version of the library. " + _DOCTOR,
    ),
    -7: ("The context has gone.", "Open the model again."),
    -8: (
        "The inputs do not have the size, type or layout of the model's.",
        "Compare them with the attributes that opening the model returned.",
    ),
    -9: ("The outputs cannot be had in this form.", "Ask for them without want_float."),
    -10: (
        "The runtime library and the driver of the NPU do not fit each other.",
        "Update both to the versions of one SDK. " + _DOCTOR,
    ),
    -11: (
        "The model was precompiled for another driver.",
        "Build it again without pre_compile, or for this driver.",
    ),
    -12: (
        "The optimization level of the model does not fit this driver.",
        "Build it with a lower optimization level, or update the driver.",
    ),
    -13: ("The model was built for another chip.", "Build it with this board's chip as target."),
    -14: (
        "The board has the mini driver, which takes precompiled models only.",
        "Build the model with pre_compile, or load the full driver.",
    ),
}

_SAID = (
    (
        "invalid rknn model version",
        "The model was built by a newer toolkit than this runtime library reads.",
        "Update the runtime library, or build the model for the older one. " + _DOCTOR,
    ),
    (
        "invalid rknn_magic",
        "The file is no model of this generation of the runtime library, or is damaged.",
        "Build it for this board's chip.",
    ),
    (
        "failed to open rknpu",
        "The NPU's driver is not loaded, or its device file may not be opened.",
        "Run as root or as a member of the group render; look for rknpu in dmesg.",
    ),
)


def explain(call: str, code: int, said: str, library: str) -> Refused:
    """The error of a call.

    Args:
        call: the function.
        code: what it returned.
        said: what the library wrote meanwhile.
        library: its path.
    """
    name = ERRORS.get(code, "an unknown error")
    cause, remedy = _CODES.get(code, _CODES[-1])
    for words, because, fix in _SAID:
        if words in said.lower():
            cause, remedy = because, fix
            break
    lines = last_lines(said)
    if lines:
        cause = "{} The library wrote: {}".format(cause, lines)
    what = "{} of {} returned {} ({}).".format(call, library, name, code)
    return Refused(what, cause, remedy, kind=KIND)
