"""How the workbench feels: start-up, keys, opening graphs and ``--help``, beside the limit app.

    python benchmarks/terminal/feel.py [--repeats 5] [--only startup,keys,...] [--theme NAME]
        [--json FILE]

Every figure is measured on a pty of 120x40 by ``ttybench.py`` (which answers the terminal's queries
and sees what a person would), in turn with ``textual_limit_app.py``, the lightest Textual program
there is; medians of the repeats. Both tools are found in ``../shared/tools`` beside the checkout,
or in ``--tools``.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.terminal.graphs import residual_model  # noqa: E402 - run as a script too

COLUMNS, ROWS = 120, 40
KEYS = ["\x1b[B"] * 12 + ["\x1b[A"] * 12
GAP = 0.05
"""Seconds of silence that end the answer to a key, as in ``ttybench.py``."""

PEERS = {
    "start-up, ready ms": "limit 315, posting 700, harlequin 971, toolong 474, btop 32, htop 103",
    "key to paint p95 ms": "limit 9.6, posting 5.3, harlequin 7.0, toolong 23.1, btop 9.8",
    "10,000 nodes on screen s": "limit (full - lazy) 0.48, Netron in Chromium 6.13",
}
"""docs/measurements/terminal.md: another machine of the same kind, quiet."""


class Bench:
    """The tools, a home of its own and the results."""

    def __init__(self, tools: Path, repeats: int, theme: str) -> None:
        self.tools = tools
        self.repeats = repeats
        self.theme = theme
        self.tty = _load(tools / "ttybench.py")
        self.home = Path(tempfile.mkdtemp(prefix="rknntui-feel-"))
        self.results: dict[str, object] = {}
        self.rows: list[tuple[str, str, str, str]] = []

    def row(self, what: str, ours: str, goal: str, met: bool | None = None) -> None:
        """One line of the table."""
        self.rows.append((what, ours, goal, {True: "met", False: "NOT MET", None: ""}[met]))

    @contextmanager
    def session(self, argv: list[str], **environment: str) -> Iterator[Any]:
        """A program on a pty; ended by its number when the block ends."""
        unset = dict.fromkeys(("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"), "")
        home = {"HOME": str(self.home), **unset}
        env = {**home, "PYTHONPATH": str(ROOT), **environment}
        run = self.tty.Session(argv, COLUMNS, ROWS, env=env, cwd=str(self.home))
        try:
            yield run
        finally:
            if run.p.poll() is None:
                run.p.kill()
            run.p.wait()
            os.close(run.master)
            os.close(run.slave)

    def limit(self, mode: str) -> Any:
        """The limit app."""
        script = str(self.tools / "textual_limit_app.py")
        return self.session([sys.executable, script], MODE=mode)

    def ours(self, *arguments: str) -> Any:
        """The workbench, without what it remembers beside a theme, or has in its cache."""
        for folder in (".local/state", ".cache"):
            shutil.rmtree(self.home / folder / "rknntui", ignore_errors=True)
        state = self.home / ".local/state/rknntui/interface.json"
        state.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        state.write_text(json.dumps({"version": 1, "theme": self.theme}))
        return self.session([sys.executable, "-m", "rknntui", *arguments])

    def ready(self, run: Any, *texts: str, timeout: float = 60) -> float:
        """Milliseconds from the start of the program until the texts are on the screen."""
        painted = run.wait_ready([re.compile(text) for text in texts], 0.3, timeout)
        return _number(painted["ready_ms"], texts, run)

    def until(self, run: Any, text: str, since: float, timeout: float = 60) -> float:
        """Milliseconds from ``since`` until a text is on the screen."""
        patterns = [re.compile(text)]
        end = time.perf_counter() + timeout
        while time.perf_counter() < end:
            run.pump(0.05)
            for at, _, ready in run.parse(patterns):
                if ready:
                    return (at - since) * 1000
            if re.search(text, run.text()):  # it came while keys were sent
                return (time.perf_counter() - since) * 1000
        return _number(None, (text,), run)

    def keys(self, run: Any, rounds: int = 1) -> list[tuple[float, float, int]]:
        """(first change ms, last change ms, bytes) of every key of KEYS."""
        taken = []
        for _ in range(rounds):
            for key in KEYS:
                answer = run.key(key, GAP, 2.0)
                if answer is not None:
                    taken.append(answer)
                run.quiet(0.25, 1.0)
        return taken


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("ttybench", path)
    if spec is None or spec.loader is None or not path.is_file():
        sys.exit(f"{path} is missing: give the folder of ttybench.py by --tools")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _number(value: float | None, texts: tuple[str, ...], run: Any) -> float:
    if value is None:
        raise RuntimeError(f"never on the screen: {texts}\n{run.text()}")
    return float(value)


def median(values: list[float]) -> float:
    """The median."""
    return statistics.median(values)


def p95(values: list[float]) -> float:
    """The 95th percentile."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(0.95 * (len(ordered) - 1)))]


def startup(bench: Bench) -> None:
    """Ready times in turn: limit app lazy and full, and ours."""
    lazy, full, ours = [], [], []
    for _ in range(bench.repeats):
        with bench.limit("lazy") as run:
            lazy.append(bench.ready(run, "Quit"))
        with bench.ours() as run:
            ours.append(bench.ready(run, "Palette", "Overview"))
        with bench.limit("full") as run:
            full.append(bench.ready(run, "Quit", "node 000"))
    result = {"lazy": median(lazy), "full": median(full), "ours": median(ours)}
    bench.results["startup"] = {**result, "samples": {"lazy": lazy, "full": full, "ours": ours}}
    ratio = result["ours"] / result["lazy"]
    figures = f"{result['ours']:.0f} ms = {ratio:.2f} x {result['lazy']:.0f}"
    bench.row("start-up, ready", figures, "1.2 x MODE=lazy", ratio <= 1.2)


def keys(bench: Bench) -> None:
    """Key to paint: the limit app idle, ours idle, ours while a build runs."""
    import psutil

    graph = residual_model(1000, bench.home / "keys.onnx")
    recipe = _long_recipe(bench.home)
    taken: dict[str, list[tuple[float, float, int]]] = {"limit": [], "idle": [], "build": []}
    for _ in range(bench.repeats):
        with bench.limit("lazy") as run:
            bench.ready(run, "Quit")
            run.quiet(0.3, 1)
            taken["limit"] += bench.keys(run)
        with bench.ours(str(graph)) as run:
            bench.ready(run, "1,?000 nodes")
            run.play(["1"])
            bench.until(run, "source · 1,?000 nodes", time.perf_counter())
            _rests(run, psutil.Process(run.pid).children())
            taken["idle"] += bench.keys(run)
        with bench.ours(str(recipe)) as run:
            bench.ready(run, "32 nodes")
            run.play(["b"])
            bench.until(run, "build calibrate", time.perf_counter())
            run.play(["1"])
            bench.until(run, r"source · 32 nodes", time.perf_counter())
            run.quiet(0.25, 1.0)  # its detail, too: the keys are timed, not the view's first paint
            taken["build"] += bench.keys(run)
            if not re.search("build ", run.text()):
                raise RuntimeError(f"the build ended before the keys\n{run.text()}")
            run.play(["\x18", "y", 1.0])
    first = {name: [answer[0] for answer in answers] for name, answers in taken.items()}
    size = median([answer[2] for answer in taken["idle"]])
    result = {n: {"p50": median(v), "p95": p95(v), "samples": len(v)} for n, v in first.items()}
    bench.results["keys"] = {**result, "bytes_p50": size}
    base = result["limit"]["p95"]
    for name, goal in (("idle", 1.0), ("build", 1.5)):
        value = result[name]["p95"]
        what = "key to paint p95, idle" if name == "idle" else "key to paint p95, build runs"
        figures = f"{value:.1f} ms = {value / base:.2f} x {base:.1f}"
        bench.row(what, figures, f"{goal} x limit app idle", value <= goal * base)
    bench.row("bytes a key, median", f"{size:.0f}", "under 1,000", size < 1000)


def _long_recipe(home: Path) -> Path:
    """A recipe whose calibration outlasts the keys."""
    from rknntui.demo import demo_folder

    demo = demo_folder()
    samples = [str(demo / line) for line in (demo / "dataset.txt").read_text().split()]
    (home / "many.txt").write_text("\n".join(samples * 300))
    path = home / "recipe.yaml"
    model = demo / "digits_demo.onnx"
    words = ["recipe", "new", str(model), "--dataset", str(home / "many.txt"), "-o", str(path)]
    subprocess.run([sys.executable, "-m", "rknntui", *words], check=True, cwd=ROOT)
    return path


def graphs(bench: Bench) -> None:
    """From Enter in the picker, with a warm worker, until the graph is on the screen."""
    allowed = 500.0
    if "startup" in bench.results:
        starts = bench.results["startup"]
        allowed += max(0.0, starts["full"] - starts["lazy"])
    small = residual_model(20, bench.home / "small.onnx")
    bench.results["graphs"] = {}
    for nodes in (100, 1000, 10_000):
        path = residual_model(nodes, bench.home / f"g{nodes}.onnx")
        taken, memory = [], []
        for _ in range(bench.repeats):
            with bench.ours(str(small)) as run:
                bench.ready(run, " 20 nodes")
                run.play(["o", 0.3, "\x15", *str(path), 0.3])
                begun = time.perf_counter()
                run.send("\r")
                taken.append(bench.until(run, f" {nodes:,} nodes".replace(",", ",?"), begun))
                memory.append(_own_rss(run))
        value, rss = median(taken), median(memory)
        bench.results["graphs"][str(nodes)] = {"ms": value, "rss_mib": rss, "samples": taken}
        large = nodes == 10_000
        goal = f"{allowed:.0f} ms (full - lazy + 500)" if large else ""
        met = value <= allowed if large else None
        bench.row(f"open {nodes:,} nodes", f"{value:.0f} ms", goal, met)
        if large:
            bench.row("interface process", f"{rss:.0f} MiB", "under 80 MiB", rss < 80)


def _own_rss(run: Any) -> float:
    import psutil

    return psutil.Process(run.pid).memory_info().rss / 2**20


def switches(bench: Bench) -> None:
    """Bytes that showing each step of the demo takes after a build: at first, and again."""
    from rknntui.demo import demo_folder
    from rknntui.workspaces import WORKSPACES

    recipe = bench.home / "switches.yaml"
    demo = demo_folder()
    model = json.dumps(str(demo / "digits_demo.onnx"))
    recipe.write_text(
        f"version: 1\nsource: {{model: {model}}}\n"
        "preprocess: {mean_values: [[127.5]], std_values: [[127.5]]}\n"
        f"dataset: {{dataset: {json.dumps(str(demo / 'dataset.txt'))}}}\n"
    )
    with bench.ours(str(recipe)) as run:
        bench.ready(run, "32 nodes")
        run.play(["b"])
        bench.until(run, "dB simulated", time.perf_counter())
        run.quiet(2.0, 10)
        taken: dict[str, dict[str, int]] = {}
        for turn in ("at first", "again"):
            for place in WORKSPACES.values():
                before = len(run.raw)
                run.send(place.key)
                run.quiet(1.0, 6)
                taken.setdefault(place.title, {})[turn] = len(run.raw) - before
    bench.results["switches"] = taken
    first = 25_000 if bench.theme == "low-bandwidth" else 60_000
    for name, sizes in taken.items():
        for turn, goal in (("at first", first), ("again", 20_000)):
            goal_text = f"at most {goal:,}"
            bench.row(f"{name} {turn}, bytes", f"{sizes[turn]:,}", goal_text, sizes[turn] <= goal)


def idle(bench: Bench) -> None:
    """Share of a core that the interface process takes when nothing happens."""
    import psutil

    seconds, taken, written = 20.0, [], 0
    path = residual_model(1000, bench.home / "idle.onnx")
    for _ in range(min(3, bench.repeats)):
        with bench.ours(str(path)) as run:
            bench.ready(run, "1,?000 nodes")
            process = psutil.Process(run.pid)
            _rests(run, process.children())
            before, sent = sum(process.cpu_times()[:2]), len(run.raw)
            run.quiet(seconds + 1, seconds)
            taken.append((sum(process.cpu_times()[:2]) - before) / seconds * 100)
            written = max(written, len(run.raw) - sent)
    percent = median(taken)
    bench.results["idle"] = {"cpu_percent": percent, "bytes": written, "samples": taken}
    bench.row("idle CPU", f"{percent:.2f} %, {written} bytes", "under 0.2 %", percent < 0.2)


def _rests(run: Any, workers: list[Any]) -> None:
    """Wait until the workers asked for nothing more: the figures of all chips are there."""
    worked = -1.0
    while (now := sum(sum(worker.cpu_times()[:2]) for worker in workers)) > worked:
        worked = now
        run.quiet(3.0, 3.0)


def help_text(bench: Bench) -> None:
    """``--help`` beside the bare import of the command line library."""
    ours, bare = [], []
    for _ in range(max(5, bench.repeats)):
        bare.append(_wall(["-c", "import click"]))
        ours.append(_wall(["-m", "rknntui", "--help"]))
    more = median(ours) - median(bare)
    bench.results["help"] = {"ours_ms": median(ours), "click_ms": median(bare)}
    figures = f"{median(ours):.0f} ms = {median(bare):.0f} + {more:.0f}"
    bench.row("--help", figures, "import click + 60 ms", more <= 60)


def _wall(arguments: list[str]) -> float:
    begun = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - begun) * 1000


PARTS: dict[str, Callable[[Bench], None]] = {
    "startup": startup,
    "keys": keys,
    "graphs": graphs,
    "switches": switches,
    "idle": idle,
    "help": help_text,
}


def main() -> int:
    """Run the parts and print the table; 1 when a goal is not met."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tools", type=Path, default=ROOT.parent / "shared" / "tools")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--theme", default="dark")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    bench = Bench(options.tools, options.repeats, options.theme)
    load = os.getloadavg()[0]
    try:
        for name in options.only.split(","):
            PARTS[name](bench)
    finally:
        shutil.rmtree(bench.home, ignore_errors=True)
    print(f"{COLUMNS}x{ROWS}, medians of {bench.repeats}, load before {load:.1f}")
    for what, ours, goal, met in bench.rows:
        print(f"  {what:<30} {ours:<28} {goal:<26} {met}")
    for what, text in PEERS.items():
        print(f"  peers, {what}: {text}")
    if options.json:
        data = {"load": load, "repeats": bench.repeats, **bench.results}
        options.json.write_text(json.dumps(data, indent=1) + "\n")
    return 1 if any(met == "NOT MET" for *_, met in bench.rows) else 0


if __name__ == "__main__":
    sys.exit(main())
