"""The verbs of the command line: name -> (module, help), and the groups of the help.

The command is what has the verb's name in the module, else its ``command``.

A further one is found by its file in ``commands``. Imports none of them: start-up needs this.
"""

from pathlib import Path

VERBS: dict[str, tuple[str, str]] = {
    "demo": ("demo", "Run the main job on the demo model, then open the workbench on its result."),
    "build": ("build", "Load, optimise, calibrate, quantize and evaluate a model."),
    "simulate": ("judge", "Run inputs through a build or a container on this machine."),
    "accuracy": ("accuracy", "Rank the layers of a build by their quantization error."),
    "evaluate": (
        "judge",
        "Score labelled samples, float against simulated: top-k or a custom score.",
    ),
    "hybrid": ("hybrid", "Mixed precision: set the dtype of layers by files, proposal or search."),
    "sweep": ("sweep", "Build with many option values and compare the builds."),
    "inspect": ("inspect", "Show what a file is and what it contains."),
    "export": (
        "build",
        "Write a build as .rknn container, QDQ ONNX for the vendor's compiler, or TFLite.",
    ),
    "dataset": ("dataset", "Make or check a calibration dataset."),
    "recipe": ("recipe", "Write, check, show or compare recipes."),
    "encrypt": ("files", "Encrypt a container or a compiled model."),
    "decrypt": ("files", "Decrypt a container that was encrypted here."),
    "segment": ("files", "Cut a model into segments that other models may run between."),
    "codegen": ("files", "Write a C++ or Python project that runs a model on a board."),
    "doctor": ("doctor", "Check this machine and installation, or a board."),
    "script": (
        "shell",
        "Run a Python script of the vendor's toolkit, unchanged, with this program.",
    ),
    "completion": ("shell", "Print the completion script of a shell."),
}


def _others() -> dict[str, tuple[str, str]]:
    """Verbs without a row: files of ``commands``, whose first line has the help behind a colon."""
    others: dict[str, tuple[str, str]] = {}
    listed = {module for module, _ in VERBS.values()}
    for path in sorted(Path(__file__).with_name("commands").glob("[a-z]*.py")):
        if path.stem not in listed:
            line = path.read_text("utf-8").partition("\n")[0]
            others[path.stem] = path.stem, line.partition(": ")[2].strip('"')
    return others


VERBS |= _others()

GROUPS: dict[str, tuple[str, ...]] = {
    "Build": ("demo", "inspect", "dataset", "recipe", "build", "export", "sweep", "script"),
    "Judge": ("simulate", "accuracy", "evaluate", "hybrid"),
    "Chips": ("chips", "check"),
    "Compile and deploy": ("vendor", "compile", "codegen", "segment", "encrypt", "decrypt"),
    "Boards": ("devices", "doctor", "run", "perf", "memory", "monitor", "compare"),
    "Shell": ("completion",),
}
"""Heading -> its verbs, in the order of the help; a verb of no group comes last."""
