"""A far end with bad habits, in the language of Python 3.5: ``python -I toy_far.py FAR_PY``.

The way of a script in a vendor's environment: it has no engine, only a copy of ``far.py``.
"""

import importlib.util
import os
import signal
import sys
import time


def load(path):
    spec = importlib.util.spec_from_file_location("far", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


far = load(sys.argv[1])
reads, writes = far.take_streams()


def raw(data):
    """Write past the protocol."""
    while data:
        data = data[os.write(writes, data) :]


def echo(request):
    return request.params


def python(request):
    return {"version": list(sys.version_info[:2])}


def variable(request):
    return {"value": os.environ.get(request.params["name"], "")}


def count(request):
    for step in range(request.params["to"]):
        request.progress({"step": step})
    return {"counted": request.params["to"]}


def spin(request):
    while True:
        request.check_cancelled()
        time.sleep(0.01)


def hang(request):
    time.sleep(600)
    return {}


def deaf(request):
    """Hears neither that it is cancelled nor SIGTERM."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    request.progress({"deaf": True})
    return hang(request)


def mistake(request):
    return {"never": 1 // 0}


def refuse(request):
    raise far.Refused("It is a Foo.", "nobody knows it", "cut", kind="unsupported operator")


def odd(request):
    return {"nan": float("nan"), "text": "\u00fc\x1b", "inf": [float("inf"), 1.5]}


def no_json(request):
    return {"object": object()}


def prints(request):
    print('{"id": 1, "result": {"forged": true}}', flush=True)
    assert sys.stdin.read() == ""
    return {}


def garbage(request):
    raw(request.params["line"].encode() + b"\n")
    return hang(request)


def endless(request):
    while True:
        raw(b"x" * 65536)


def half(request):
    raw(b'{"id": 1, "resu')
    said = request.params.get("say", "the library gave up")
    sys.stderr.write("no room\n" + said + "\n")
    sys.stderr.flush()
    os.abort()


def flood(request):
    for _ in range(request.params["lines"]):
        os.write(2, b"y" * 1023 + b"\n")
    os.write(2, b"last words\n")
    return {}


def leave(request):
    os._exit(3)


METHODS = [echo, python, variable, count, spin, hang, deaf, mistake, refuse, odd, no_json, prints]
METHODS += [garbage, endless, half, flood, leave]

if __name__ == "__main__":
    far.FarEnd(reads, writes).serve({function.__name__: function for function in METHODS})
