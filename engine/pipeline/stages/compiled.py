"""A model as the vendor's compiler made it: a stage that runs only where somebody asks for it.

No build has it: what is compiled depends on a chip and on a toolkit, and a recipe may be compiled
for many chips. Its key is the hash of all that the toolkit is given, with the toolkit's version:
so a change of the recipe that leaves the deployed graph as it is compiles nothing again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from engine.base.plain import JsonObject
from engine.pipeline.pipeline import Codec, Stage
from engine.pipeline.results import Files
from engine.recipe import canonical_json
from engine.wire.codec import encode, typed
from engine.wire.compile import SecondOpinion


@dataclass(frozen=True)
class CompiledModel:
    """What came out of a compilation.

    Attributes:
        model: the bytes of the file.
        log: what the toolkit printed.
        seconds: that it took, measured.
        opinion: the vendor's simulator beside ours; None where it was not asked.
    """

    key: str
    model: bytes
    log: str
    seconds: float
    opinion: SecondOpinion | None = None

    def to_files(self) -> Files:
        """For the cache."""
        opinion = None if self.opinion is None else encode(self.opinion)
        facts = json.dumps({"seconds": self.seconds, "opinion": opinion})
        return {
            "model.rknn": self.model,
            "log.txt": self.log.encode("utf-8", "backslashreplace"),
            "facts.json": facts.encode("ascii"),
        }

    @classmethod
    def from_files(cls, key: str, files: Mapping[str, bytes]) -> CompiledModel:
        """From the cache."""
        facts = json.loads(files["facts.json"])
        opinion = facts["opinion"] and typed(SecondOpinion, facts["opinion"])
        log = files["log.txt"].decode("utf-8", "replace")
        return cls(key, files["model.rknn"], log, float(facts["seconds"]), opinion)


def compiled_stage(
    chip: str, facts: JsonObject, run: Callable[[str], CompiledModel]
) -> Stage[CompiledModel]:
    """The stage of one chip.

    Args:
        chip: its name.
        facts: all that decides the result.
        run: compiles, given the key.
    """
    return Stage(
        name=f"compiled-{chip}",
        title=f"Compile for {chip}",
        run=lambda _, key: run(key),
        on_request=True,
        codec=Codec(
            CompiledModel.to_files, lambda _, key, files: CompiledModel.from_files(key, files)
        ),
        key=hashlib.sha256(canonical_json(dict(facts))).hexdigest(),
    )
