"""What runs on the emulated board in place of the agent; ``far.py`` lies beside it."""

import os
import signal
import sys
import time

import far


def echo(request):
    """Progress, then what was given."""
    for number in range(3):
        request.progress({"number": number})
    return {"given": request.params, "variable": os.environ.get("RKNNTUI_TEST", "")}


def crash(request):
    """As a native library does."""
    sys.stderr.write("first\nlast words \033[31m\n")
    sys.stderr.flush()
    os.kill(os.getpid(), signal.SIGSEGV)
    return {}


def noise(request):
    """Talk to stderr, far more than anybody keeps."""
    for _ in range(1000):
        sys.stderr.write("x" * 1000 + "\n")
    sys.stderr.flush()
    return {}


def hang(request):
    """Until the end."""
    request.progress({"hangs": True})
    while True:
        time.sleep(1)


if __name__ == "__main__":
    reads, writes = far.take_streams()
    methods = {"echo": echo, "crash": crash, "noise": noise, "hang": hang}
    methods["chatter"] = lambda request: {"written": os.write(writes, b"hello\n")}
    far.FarEnd(reads, writes).serve(methods)
