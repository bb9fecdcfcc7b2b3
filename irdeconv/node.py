"""What a graph consists of: nodes, their outputs, and what belongs to the whole model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from irdeconv.markup import html_table, plain
from irdeconv.op import Op
from irdeconv.source import Location
from irdeconv.spec import Spec


class Value(NamedTuple):
    """An output of a node: the node's id and the number of the output."""

    node: int
    port: int = 0


@dataclass(slots=True, repr=False)
class Node:
    """One operation in a graph.

    `origins` names the source layers that a rewritten node stands for. `declared` and
    `declared_inputs` are the specs that the file states, `specs` the inferred ones (None before
    inference). `tensor_names` has the names of each output. `rt_info` is the layer's XML, kept for
    writing, `port_rt_info` that of its ports as ("input" or "output", port, XML); `extra` are
    attributes of `<layer>` beyond the four standard ones, `extra_data` those of `<data>` that the
    operation does not know. `port_elements` numbers the `<port>`s of inputs and outputs among the
    elements of the layer, for their places.
    """

    id: int
    op: Op
    name: str
    location: Location | None = None
    origins: tuple[str, ...] = ()
    tensor_names: tuple[tuple[str, ...], ...] = ()
    declared: tuple[Spec, ...] = ()
    declared_inputs: tuple[Spec, ...] = ()
    specs: tuple[Spec, ...] | None = None
    rt_info: str | None = None
    extra: tuple[tuple[str, str], ...] = ()
    extra_data: tuple[tuple[str, str], ...] = ()
    port_rt_info: tuple[tuple[str, int, str], ...] = ()
    port_elements: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())

    def copy(self) -> Node:
        """Return a node of its own; what it consists of is immutable and shared."""
        return Node(
            self.id,
            self.op,
            self.name,
            self.location,
            self.origins,
            self.tensor_names,
            self.declared,
            self.declared_inputs,
            self.specs,
            self.rt_info,
            self.extra,
            self.extra_data,
            self.port_rt_info,
            self.port_elements,
        )

    def __repr__(self) -> str:
        outputs = ", ".join(str(self.spec(port)) for port in range(self.outputs))
        title = f'<Node %{self.id} "{plain(self.name)}": {self.type} of {self.op.version}'
        return f"{title} -> {outputs}>" if outputs else f"{title}>"

    def _repr_html_(self) -> str:
        rows = [("id", self.id), ("type", f"{self.type} of {self.op.version}")]
        rows += [(name, text) for name, text in self.op.to_attributes().items()]
        rows += [(f"output {port}", self.spec(port)) for port in range(self.outputs)]
        names = [name for port in self.tensor_names for name in port]
        rows += [("tensors", ", ".join(names))] * bool(names)
        rows += [("stands for", ", ".join(self.origins))] * bool(self.origins)
        rows += [("place", self.location)] * (self.location is not None)
        return html_table(self.name, ("", ""), rows)

    @property
    def type(self) -> str:
        """The operation's type as `<layer>` spells it."""
        return self.op.type

    @property
    def outputs(self) -> int:
        """Number of output ports, as far as known."""
        return len(self.specs if self.specs is not None else self.declared)

    def spec(self, port: int = 0) -> Spec:
        """Return the inferred spec of an output, or the declared one before inference."""
        specs = self.specs if self.specs is not None else self.declared
        return specs[port] if port < len(specs) else Spec(None, None)

    def names_of(self, port: int) -> tuple[str, ...]:
        """Return the tensor names of an output."""
        return self.tensor_names[port] if port < len(self.tensor_names) else ()

    def add_names(self, port: int, names: Iterable[str]) -> None:
        """Let the tensor of an output have these names besides those that it has."""
        every = list(self.tensor_names) + [()] * (port + 1 - len(self.tensor_names))
        every[port] = (*every[port], *names)
        self.tensor_names = tuple(every)

    def output_key(self, port: int) -> str:
        """Return the name of an output by its layer, as `run --dump` saves it: NAME, NAME.1, ..."""
        return self.name if self.outputs < 2 else f"{self.name}.{port}"

    def place_of(self, side: Literal["input", "output"], port: int) -> Location | None:
        """Return the place of a `<port>`, or of the layer where the file has no such element."""
        elements = self.port_elements[side == "output"]
        if self.location is None or port >= len(elements):
            return self.location
        return self.location.within(elements[port])


@dataclass
class Info:
    """What belongs to the whole model: name, IR version, rt_info XML.

    `file` is the one that it was read from, `files` are those that were read besides, except the
    `.bin` of an IR.
    """

    name: str = "model"
    ir_version: int = 11
    rt_info: str | None = None
    file: str | None = None
    extra: tuple[tuple[str, str], ...] = ()
    files: tuple[str, ...] = ()
