"""Short names of our own in the file that a toolkit is given, and the way back to the user's.

Toolkit 2.3.2 makes names out of those of a file and finds tensors by them: constants called
``scalar`` and ``scalar_1``, or ``ints`` and ``ints_1``, become one, and the wrong numbers are
computed in silence; a name of 128 characters is a KeyError. In the file that it is given every
node is therefore ``n00012`` and every tensor inside ``t00034``, numbered as they come. Inputs and
outputs keep their names, as programs on a board ask for them: whatever they were called, the
numbers stayed right. Longer ones than the toolkit takes are cut.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

import numpy as np
import onnx

from engine.base.findings import Finding
from engine.base.text import sanitize

if TYPE_CHECKING:
    from engine.cost.printed import Printed
    from engine.graph.ir import TensorSpec

LONGEST_PORT = 120
"""Characters of an input or output: 2.3.2 fails from 127 on, where it adds endings earlier."""
_BYTES_OF_PORT = 240
"""The same in UTF-8: the runtime's library has room for 255 bytes."""
_TAIL = 90
"""Characters that stay of a longer one: the end of a path says most."""

_NEUTRAL = re.compile(r"(?<![0-9A-Za-z])[nt]\d{5,}(?!\d)")


@dataclass(frozen=True)
class NeutralNames:
    """The names of a file, and the user's.

    Attributes:
        users: name in the file -> the user's; of nodes and of tensors inside.
        cut: the same of inputs and outputs whose name was too long.
    """

    users: Mapping[str, str] = field(default_factory=dict)
    cut: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_file(cls, names: object) -> Self:
        """Those that :meth:`of_model` gave, as somebody's file has them."""
        rows = names.items() if isinstance(names, dict) else ()
        known = {name: user for name, user in rows if isinstance(user, str) and name and user}
        users = {name: user for name, user in known.items() if _NEUTRAL.fullmatch(name)}
        cut = {name: user for name, user in known.items() if name == port_in_file(user) != user}
        return cls(users, cut)

    def told(self, text: str) -> str:
        """A text of the toolkit with the user's names in it."""
        for name, user in self.cut.items():
            text = text.replace(name, user)
        return _NEUTRAL.sub(lambda match: self.users.get(match[0], match[0]), text)

    def in_file(self, users: Mapping[str, str]) -> dict[str, str]:
        """User's name of a tensor -> something, by the names in the file."""
        tensors = {user: name for name, user in self.users.items() if name.startswith("t")}
        tensors |= {user: name for name, user in self.cut.items()}
        return {tensors.get(user, user): value for user, value in users.items()}

    def ports(self, specs: Iterable[TensorSpec]) -> list[TensorSpec]:
        """Inputs or outputs as the file calls them."""
        names = {user: name for name, user in self.cut.items()}
        return [replace(spec, name=names.get(spec.name, spec.name)) for spec in specs]

    def table(self, printed: Printed) -> Printed:
        """What the compiler printed, with the user's names in it."""
        return replace(
            printed,
            layers=[replace(row, name=self.told(row.name)) for row in printed.layers],
            features=[replace(row, name=self.told(row.name)) for row in printed.features],
            consts=[replace(row, name=self.told(row.name)) for row in printed.consts],
            notices=[self.told(row) for row in printed.notices],
        )

    def of_model(self, model: bytes) -> dict[str, str]:
        """The names that a compiled model has -> the user's."""
        neutral = set(_neutral_in(model))
        return {name: self.users[name] for name in sorted(neutral & self.users.keys())} | {
            **self.cut
        }

    def findings(self) -> Iterator[Finding]:
        """That an input or output is called otherwise in the compiled model."""
        for name, user in self.cut.items():
            yield Finding(
                "port-name-cut",
                "warning",
                sanitize(user, 80),
                f"The compiled model calls {sanitize(user, 200)} {name}.",
                f"The toolkit fails with inputs and outputs of more than {LONGEST_PORT} "
                "characters.",
                "Let your program ask for that name, or for its place among the inputs or outputs.",
            )


def _neutral_in(content: bytes) -> Iterator[str]:
    """The neutral names in a compiled file, most of whose bytes are weights."""
    data = np.frombuffer(content, np.uint8)
    begins = np.flatnonzero((data[:-5] == ord("n")) | (data[:-5] == ord("t")))
    for at in range(1, 6):
        following = data[begins + at]
        begins = begins[(following >= ord("0")) & (following <= ord("9"))]
    for at in begins.tolist():
        match = _NEUTRAL.search(content[max(0, at - 1) : at + 12].decode("latin-1"))
        if match is not None:
            yield match[0]


def neutral_names(model: bytes) -> tuple[bytes, NeutralNames]:
    """A model whose nodes and tensors have neutral names.

    They follow the order of the nodes alone: models that differ by names inside become the same
    bytes. Texts that say nothing to a compiler go, and constants come in the order of their names.

    Args:
        model: ONNX.
    """
    proto = onnx.load_from_string(model)
    proto.producer_name = proto.producer_version = proto.domain = proto.doc_string = ""
    constants = {value.name for value in proto.graph.initializer}  # inputs as well, in old files
    values = (*proto.graph.input, *proto.graph.output)
    ports = list(dict.fromkeys(value.name for value in values if value.name not in constants))
    called = {name: port_in_file(name) for name in ports}
    renamer = _Renamer(set(called.values()))
    renamer.graph(proto.graph, called)
    cut = {called[name]: name for name in ports if called[name] != name}
    return proto.SerializeToString(deterministic=True), NeutralNames(renamer.users, cut)


def port_in_file(name: str) -> str:
    """What an input or output is called in a compiled model: cut where it is too long."""
    if len(name) <= LONGEST_PORT and len(name.encode("utf-8")) <= _BYTES_OF_PORT:
        return name
    tail = name.encode("ascii", "replace").decode("ascii")[-_TAIL:]
    return f"{tail}~{hashlib.sha256(name.encode('utf-8')).hexdigest()[:8]}"


class _Renamer:
    """Names for the graph of a model and for those in its nodes.

    Args:
        taken: names that stay.

    Attributes:
        users: new name -> the one before.
    """

    def __init__(self, taken: set[str]) -> None:
        self.users: dict[str, str] = {}
        self._taken = taken
        self._counts = {"n": 0, "t": 0}

    def graph(self, graph: onnx.GraphProto, known: dict[str, str]) -> None:
        """Rename all that a graph has.

        Args:
            graph: of the model, or of an If or Loop in it.
            known: tensor -> its new name, of those around it; its own are added.
        """
        graph.name, graph.doc_string = "model", ""
        for name in _own_tensors(graph):
            if name not in known:
                known[name] = self._claim("t", name)
        for node in graph.node:
            node.name, node.doc_string = self._claim("n", node.name), ""
            node.input[:] = [known.get(name, name) for name in node.input]
            node.output[:] = [known.get(name, name) for name in node.output]
            for item in node.attribute:
                for inner in (*item.graphs, *((item.g,) if item.HasField("g") else ())):
                    self.graph(inner, dict(known))
        for tensor in graph.initializer:
            tensor.name, tensor.doc_string = known[tensor.name], ""
        for value in (*graph.input, *graph.output, *graph.value_info):
            value.name, value.doc_string = known.get(value.name, value.name), ""
        graph.initializer.sort(key=lambda item: item.name)
        graph.value_info.sort(key=lambda item: item.name)

    def _claim(self, kind: str, user: str) -> str:
        while True:
            name = f"{kind}{self._counts[kind]:05d}"
            self._counts[kind] += 1
            if name not in self._taken:
                self.users[name] = user
                return name


def _own_tensors(graph: onnx.GraphProto) -> Iterator[str]:
    """The tensors that a graph makes, in the order in which its nodes name them."""
    outer = [value.name for value in graph.input] + [value.name for value in graph.initializer]
    own = {*outer, *(name for node in graph.node for name in node.output)}
    for node in graph.node:
        yield from (name for name in (*node.input, *node.output) if name and name in own)
    yield from outer
