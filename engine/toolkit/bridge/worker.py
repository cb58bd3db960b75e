"""The far side of the bridge: drives the vendor's ``RKNN`` class for a near side that asks.

This file, with ``values`` and copies of :mod:`engine.base.peers.far` and
:mod:`engine.base.confine` beside it, is all of ours that runs in the environment of a toolkit:
standard library, in the language of Python 3.6, numpy only where that environment has it.
``python -I worker.py GIVEN`` (JSON, see :func:`main`) serves:

    ``make {"verbose", "verbose_file"}`` -> ``{"object": 1}``: a new object of the class;
    ``call {"object", "method", "args", "keywords"}`` -> ``{"value": ..}``: one of its methods;
    ``drop {"object"}`` -> ``{}``: forget it.

Arguments and values are as ``values`` packs them.
"""

import contextlib
import errno
import functools
import gc
import importlib
import json
import os
import sys
import traceback
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional


def _beside(name: str) -> Any:
    """A module of a file beside this one, which no search path leads to."""
    from importlib.util import module_from_spec, spec_from_file_location

    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    places = [os.path.dirname(path)] if name.endswith("__init__.py") else None
    known = "rknntui_" + name.partition(".")[0].partition("/")[0]
    spec = spec_from_file_location(known, path, submodule_search_locations=places)
    module = module_from_spec(spec)  # type: ignore[arg-type]
    if places:  # its modules name each other
        sys.modules[known] = module
    spec.loader.exec_module(module)  # type: ignore[union-attr]
    return module


if TYPE_CHECKING or __name__ != "__main__":
    from engine.base import confine
    from engine.base.peers import far
    from engine.toolkit.bridge import values
else:
    far = _beside("far.py")
    values = _beside("values.py")
    confine = _beside("confine/__init__.py")

METHODS = frozenset(
    [
        "accuracy_analysis", "build", "codegen", "config", "direct_build", "eval_memory",
        "eval_perf", "export_encrypted_rknn_model", "export_rknn", "export_rknn_precompile_model",
        "export_rknn_sync_model", "fetch_rknn_model_config", "get_sdk_version",
        "hybrid_quantization_step1", "hybrid_quantization_step2", "inference", "init_runtime",
        "list_devices", "list_support_target_platform", "load_caffe", "load_darknet",
        "load_firmware", "load_keras", "load_mxnet", "load_onnx", "load_pytorch", "load_rknn",
        "load_tensorflow", "load_tflite", "optimize_onnx", "reg_custom_op", "register_op",
        "release",
    ]
)  # fmt: skip
"""What may be called: the methods of both generations, as the manuals and the vendor's comparison
of them list them."""

_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_SANDBOX = (errno.EPERM, errno.EACCES, errno.ENOSYS)


class _Worker:
    """The objects that were made, and the methods that the near side may ask for."""

    def __init__(self, arrays: "values.Arrays") -> None:
        self._arrays = arrays
        self._objects: Dict[int, Any] = {}
        self._made = 0

    def make(self, request: "far.Request") -> "far.Message":
        """``make``: import the toolkit where that was not done yet, and make an object."""
        keywords = {k: v for k, v in request.params.items() if k in ("verbose", "verbose_file")}
        rknn = self._guarded("RKNN()", lambda: _toolkit_class()(**keywords))
        self._made += 1
        self._objects[self._made] = rknn
        return {"object": self._made}

    def call(self, request: "far.Request") -> "far.Message":
        """``call``: an allowed method of an object."""
        method = str(request.params.get("method"))
        if method not in METHODS:
            raise far.Refused("{!r} is no method of the toolkit.".format(method[:80]), kind="usage")
        function = getattr(self._object(request), method, None)
        if not callable(function):
            raise far.Refused(
                "This toolkit has no method {}.".format(method),
                "It is of the other generation, or of another version.",
                "Use another toolkit: rknntui vendor list",
                "toolkit",
            )
        try:
            args = values.unpack(request.params.get("args", []), self._arrays)
            keywords = values.unpack(request.params.get("keywords", {}), self._arrays)
        except values.Unpackable as error:
            raise far.Refused(
                "{} cannot be called with {}.".format(method, error), kind="usage"
            ) from error
        value = self._guarded(method, functools.partial(function, *args, **keywords))
        try:
            return {"value": values.pack(value, self._arrays)}
        except values.Unpackable:  # what it returned is of no documented kind: its text, at least
            return {"value": str(value)[:10000]}
        except OSError as error:
            raise _no_room(method, error) from error

    def drop(self, request: "far.Request") -> "far.Message":
        """``drop``: forget an object."""
        self._objects.pop(int(request.params.get("object", 0)), None)
        return {}

    def _object(self, request: "far.Request") -> Any:
        try:
            return self._objects[request.params["object"]]
        except (KeyError, TypeError):
            raise far.Refused("There is no such object of the toolkit.", kind="usage") from None

    def _guarded(self, name: str, action: Callable[[], Any]) -> Any:
        """The result of the toolkit's code; whatever it raises is an answer."""
        try:
            return action()
        except far.Refused:
            raise
        except OSError as error:
            traceback.print_exc()
            if error.errno in _DISK:
                raise _no_room(name, error) from error
            if error.errno in _SANDBOX:
                raise _not_allowed(name, error) from error
            raise _raised(name, error) from error
        except SystemExit as error:
            raise far.Refused(
                "{} ended the toolkit's program with exit code {}.".format(name, error.code),
                "The toolkit gives up this way where it meets what it cannot do.",
                "Read what it printed before.",
                "compiler",
            ) from error
        except KeyboardInterrupt:
            raise far.Refused("{} was interrupted.".format(name), kind="cancelled") from None
        except Exception as error:
            traceback.print_exc()
            raise _raised(name, error) from error
        finally:
            _flush()


def _raised(name: str, error: Exception) -> "far.Refused":
    text, kind = str(error)[-4000:].strip(), type(error).__name__
    if text.startswith("Traceback"):  # toolkit 2 has the whole of it in the text
        text = text.split("\n")[-1]
    if not text.startswith(kind):
        text = "{}: {}".format(kind, text)
    return far.Refused(
        "{} of the toolkit raised {}".format(name, text[:1000]),
        "It raises where arguments are not what it expects, or for a fault of its own.",
        "Read what it printed before.",
        "compiler",
    )


def _not_allowed(name: str, error: OSError) -> "far.Refused":
    return far.Refused(
        "{} of the toolkit was refused {}.".format(name, error.filename or "a call of the system")
        + " The system says: {}".format(error.strerror or error),
        "The toolkit runs in a sandbox: it writes in its own folder only, reads its libraries and "
        "the files that it was given, and connects to nothing but a board. Or the file is not this "
        "user's.",
        "Look whether the model needs this file. If it does, put it beside the model and name it.",
        "compiler",
    )


def _no_room(name: str, error: OSError) -> "far.Refused":
    return far.Refused(
        "{} could not write a file: {}.".format(name, error.strerror or error),
        "The disk, the quota or the folder for temporary files is full.",
        "Free space, or set TMPDIR to a folder with room.",
        "output",
    )


def _toolkit_class() -> Any:
    gc.disable()  # a framework is made of objects that all stay
    try:
        return importlib.import_module("rknn.api").RKNN
    except ImportError as error:
        traceback.print_exc()
        name = getattr(error, "name", None) or "rknn"
        raise far.Refused(
            "The toolkit could not be imported: {}".format(error),
            "The package {} is missing in its environment or does not fit the others.".format(name),
            "Look what is wrong: rknntui vendor check",
            "toolkit",
        ) from error
    finally:
        if hasattr(gc, "freeze"):  # from Python 3.7 on
            gc.freeze()
        gc.enable()


def _flush() -> None:
    """What was printed goes to the near side before the answer does."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    with contextlib.suppress(OSError, AttributeError, ImportError):
        import ctypes

        ctypes.CDLL(None).fflush(None)


def _print_by_lines() -> None:
    """Native code that prints into a pipe keeps kilobytes back, and an abort loses them."""
    with contextlib.suppress(OSError, AttributeError, ValueError, ImportError):
        import ctypes

        libc = ctypes.CDLL(None)
        libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, 1, 0)  # _IOLBF of <stdio.h>


def _die_with(lifeline: int) -> None:
    """Have the kernel kill this process and all that it started once the near side is gone.

    Native code may keep the interpreter's lock for minutes, and no thread of ours would run.
    """
    import fcntl
    import signal

    with contextlib.suppress(OSError):
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(lifeline, 10, int(signal.SIGKILL))  # F_SETSIG of <fcntl.h>
        flags = fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_NONBLOCK | 0o20000  # O_ASYNC
        fcntl.fcntl(lifeline, fcntl.F_SETFL, flags)
        if os.read(lifeline, 1) == b"":  # it was gone before
            os._exit(0)


def main(arguments: List[str]) -> int:
    """Serve until the input ends; the exit code.

    The only argument is ``{"folder", "work", "lifeline", "memory", "confine"}``: of the arrays, to
    work in, a descriptor that is at its end once the near side has gone, the most private memory in
    bytes, and arguments of :func:`engine.base.confine.confine_toolkit`.
    """
    settings = json.loads(arguments[0])
    os.chdir(settings["work"])
    if os.getpgrp() == os.getpid() and settings.get("lifeline") is not None:
        _die_with(settings["lifeline"])
    memory: Optional[int] = settings.get("memory")
    if memory:
        import resource

        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        soft = memory if hard == resource.RLIM_INFINITY else min(memory, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
    confine.confine_toolkit(**settings["confine"])
    reads, writes = far.take_streams()
    _print_by_lines()
    far.keep_memory()
    worker = _Worker(values.Arrays(settings["folder"], "far"))
    end = far.FarEnd(reads, writes)
    end.serve({"make": worker.make, "call": worker.call, "drop": worker.drop})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
