"""A program for a board that keeps to the protocol, or breaks it as a test asks for."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from engine.base.peers import far

_PROGRAM = """\
#!{python} -S
import hashlib, json, os, sys, time

source = {source!r}
module = type(sys)("far")
exec(compile(source, "far.py", "exec"), module.__dict__)
PLAN = json.loads({plan!r})
OPEN = PLAN["open"]


class Model:
    opened = None


def plan(method, function):
    def answer(request):
        hang = PLAN["hang"].get(method)
        if hang:
            time.sleep(hang)
        if method in PLAN["die"]:
            sys.stderr.write("Segmentation fault of " + method + "\\n")
            sys.stderr.flush()
            os._exit(139)
        if method in PLAN["refuse"]:
            said = PLAN["refuse"][method]
            raise module.Refused(said["what"], said.get("cause", ""), "", said["kind"])
        for message in PLAN["progress"].get(method, []):
            request.progress(message)
        if method in PLAN["shout"]:
            os.write(STREAMS[1], b"x" * PLAN["shout"][method])
        found = function(request)
        waiting = PLAN["in_turn"].get(method)
        return waiting.pop(0) if waiting else PLAN["replace"].get(method, found)
    return answer


def open_model(request):
    with open(request.params["model"], "rb") as stream:
        Model.opened = stream.read(4)
    return dict(OPEN, library=(request.params["libraries"] or ["none"])[0])


def run(request):
    params = request.params
    if Model.opened is None:
        raise module.Refused("No model is open.", kind="runtime library")
    total = 0
    for one in params["inputs"]:
        with open(one["path"], "rb") as stream:
            total += sum(stream.read())
    walls = []
    for done in range(params["loops"]):
        request.check_cancelled()
        if PLAN["slow"]:
            time.sleep(PLAN["slow"])
        walls.append(100 + done)
        request.progress(
            {{"done": done + 1, "total": params["loops"], "wall_us": [walls[-1]]}}
        )
    outputs = []
    if params["outputs"]:
        import struct
        path = params["outputs"] + "/output0.bin"
        with open(path, "wb") as stream:
            if params["want_float"]:
                stream.write(struct.pack("<4f", total, 1, 2, 3))
            else:
                stream.write(struct.pack("<4b", 1, 2, 3, -4))
        outputs.append({{"path": path, "size": os.path.getsize(path)}})
    return {{"outputs": outputs, "wall_us": walls, "run_us": walls, "elapsed_us": sum(walls),
            "perf": PLAN["perf"]}}


def read(request):
    found = {{}}
    for path in request.params["paths"]:
        try:
            with open(path, "rb") as stream:
                found[path] = stream.read(request.params["limit"]).decode("latin-1")
        except OSError:
            found[path] = None
    return found


def watch(request):
    done = 0
    while request.params["count"] is None or done < request.params["count"]:
        request.check_cancelled()
        request.progress({{"values": read(request), "at": time.monotonic()}})
        done += 1
        time.sleep(request.params["interval"])
    return {{}}


def digest(request):
    with open(request.params["path"], "rb") as stream:
        content = stream.read()
    return {{"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}}


def write_clocks(request):
    with open(request.params["keep"], "w") as stream:
        json.dump(request.params["values"], stream)
    return {{"changed": [pair[0] for pair in request.params["values"]], "refused": []}}


def restore_clocks(request):
    with open(request.params["keep"]) as stream:
        values = json.load(stream)
    os.unlink(request.params["keep"])
    return {{"changed": [pair[0] for pair in values], "refused": []}}


METHODS = {{
    "open": open_model,
    "run": run,
    "read": read,
    "watch": watch,
    "digest": digest,
    "write_clocks": write_clocks,
    "restore_clocks": restore_clocks,
    "memory": lambda request: OPEN["memory"],
    "close": lambda request: {{}},
}}
METHODS = {{name: plan(name, function) for name, function in METHODS.items()}}


class Once:
    cancelled = False

    def __init__(self, params):
        self.params = params

    def check_cancelled(self):
        pass

    def progress(self, content):
        pass


if "--request" in sys.argv:
    with open(sys.argv[2]) as stream:
        asked = json.load(stream)
    answers = []
    for method, params in asked["requests"]:
        function = METHODS[method]
        answers.append(module.outcome(lambda: function(Once(params))))
    with open(sys.argv[4] + ".part", "w") as stream:
        stream.write(PLAN["reply"] or json.dumps({{"answers": answers}}))
    os.rename(sys.argv[4] + ".part", sys.argv[4])
else:
    if PLAN["greeting"]:
        os.write(1, PLAN["greeting"].encode())
        time.sleep(600)
    STREAMS = module.take_streams()
    module.FarEnd(*STREAMS).serve(METHODS)
"""

INPUT: dict[str, Any] = {
    "index": 0,
    "name": "image",
    "dims": [1, 2, 3, 4],
    "layout": "NHWC",
    "dtype": "INT8",
    "quantization": "AFFINE",
    "fl": 0,
    "zero_point": -128,
    "scale": 0.0039,
    "elements": 24,
    "size": 24,
    "size_with_stride": 32,
    "w_stride": 4,
    "h_stride": 0,
    "pass_through": False,
}
OUTPUT: dict[str, Any] = {
    **INPUT,
    "name": "scores",
    "dims": [1, 4],
    "layout": "UNDEFINED",
    "elements": 4,
    "size": 4,
    "size_with_stride": 4,
}
OPEN: dict[str, Any] = {
    "generation": 2,
    "api_version": "2.3.2 (429f97ae6b@2025-04-09T09:09:27)",
    "driver_version": "0.9.8",
    "custom_string": "",
    "inputs": [INPUT],
    "outputs": [OUTPUT],
    "memory": {"weight": 10, "internal": 20, "dma": 40, "sram": 0, "sram_free": 0},
    "notes": [],
}


def fake_agent(**plan: Any) -> bytes:
    """The program.

    Args:
        plan: ``open`` (what it answers), ``hang`` (method: seconds), ``die`` (methods), ``refuse``
            (method: error), ``progress`` (method: messages before), ``shout`` (method: bytes
            without an end), ``replace`` (method: answer), ``in_turn`` (method: answers, one after
            another), ``slow`` (seconds an inference), ``perf``, ``greeting`` (in place of its
            own), ``reply`` (the file of one-shot mode).
    """
    by_method = ("hang", "refuse", "progress", "shout", "replace", "in_turn")
    nothing: dict[str, Any] = {"open": OPEN, "die": [], **{name: {} for name in by_method}}
    nothing |= {"slow": 0, "perf": None, "greeting": "", "reply": ""}
    assert plan.keys() <= nothing.keys()
    source = Path(far.__file__).read_text("utf-8")
    return _PROGRAM.format(
        python=sys.executable, source=source, plan=json.dumps(nothing | plan)
    ).encode()
