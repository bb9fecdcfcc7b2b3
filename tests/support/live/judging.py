"""Whether irdeconv and OpenVINO say the same of a sample or a model: reading, shapes, values."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

import irdeconv as ird
from irdeconv.base.errors import IrdeconvError, UsageError
from irdeconv.ir.graph import Graph, Node, unique
from irdeconv.ir.spec import Array, Interval, Spec, bounds, merge
from support.live.sample import Answer, Inferred, Model, Sample, inferred

Kind = Literal[
    "agree", "differ", "both refuse", "only OpenVINO", "only irdeconv", "OpenVINO crashes",
]  # fmt: skip
KINDS: tuple[Kind, ...] = (
    "agree", "differ", "both refuse", "only OpenVINO", "only irdeconv", "OpenVINO crashes",
)  # fmt: skip
# Relative to the largest magnitude. The plugin computes what is narrow or f64 in f32, functions by
# polynomials; sums may have any order.
LIMITS = {"f64": 2.0**-19, "f32": 2.0**-19, "f16": 2.0**-9, "bf16": 2.0**-6}
PASSIVE = ("Parameter", "Const", "Result")
MEMORY = 2**30  # bytes; a changed attribute can ask for as many as there are


@dataclass(frozen=True)
class Finding:
    """A disagreement: its kind, the layer where it shows first, what is said of it."""

    kind: str
    layer: str = ""
    detail: str = ""


@dataclass(frozen=True)
class Verdict:
    """One sample's row: what came of it, and why."""

    kind: Kind
    sample: Sample
    reason: str = ""
    wider: bool = False

    @property
    def disagrees(self) -> bool:
        """Whether OpenVINO runs it, and irdeconv gives something else or nothing."""
        return self.kind in ("differ", "only OpenVINO")

    @property
    def finding(self) -> Finding:
        """The same as of a model: what differs is a type, a shape (inferred or not) or values."""
        kind: str = self.kind
        if kind == "differ":
            words = {"irdeconv fails": "irdeconv fails", ": type ": "type",
                     ": inferred ": "inferred", ": shape [": "shape"}  # fmt: skip
            kind = next((k for text, k in words.items() if text in self.reason), "values")
        return Finding(kind, self.sample.type, self.reason)


def judge(sample: Sample, live: Answer, ours: Answer) -> Verdict:
    """Compare OpenVINO's answer with irdeconv's."""
    if ours.kind == "crashed":
        return Verdict("differ", sample, f"irdeconv fails: {ours.message}")
    if live.kind in ("crashed", "unstable"):
        return Verdict("OpenVINO crashes", sample, live.message)
    if live.kind == "refused":
        if ours.kind == "refused":
            return Verdict("both refuse", sample, f"{live.message} // {ours.message}")
        return Verdict("only irdeconv", sample, live.message)
    if ours.kind == "refused":
        return Verdict("only OpenVINO", sample, ours.message)
    reason = difference(sample, live, ours)
    wider = not reason and any(map(is_wider, live.specs, ours.specs))
    return Verdict("differ" if reason else "agree", sample, reason, wider)


def difference(sample: Sample, live: Answer, ours: Answer) -> str:
    """Say how two runs differ; empty where they do not."""
    for i, (a, b) in enumerate(zip(live.specs, ours.specs, strict=True)):
        if a[0] != b[0]:
            return f"output {i}: type {b[0]}, OpenVINO {a[0]}"
        if not _compatible(a[1], b[1]):
            return f"output {i}: inferred {shown(b[1])}, OpenVINO {shown(a[1])}"
    for i, (x, y) in enumerate(zip(live.arrays, ours.arrays, strict=True)):
        if x.shape != y.shape:
            return f"output {i}: shape {list(y.shape)}, OpenVINO {list(x.shape)}"
        if not _compatible([(d, d) for d in x.shape], ours.specs[i][1]):
            return f"output {i}: shape {list(x.shape)}, inferred {shown(ours.specs[i][1])}"
        why = _values(x, y, limit_of(sample, ours.specs[i][0]))
        if why:
            return f"output {i}: {why}"
    return ""


def limit_of(sample: Sample, output: str) -> float:
    """The tolerance of the narrowest floating-point type that takes part."""
    names = [output, *(g.tensor.dtype.name for g in sample.inputs)]
    return max((LIMITS[n] for n in names if n in LIMITS), default=0.0)


def _values(live: Any, ours: Any, limit: float) -> str:
    if ours.dtype == object or live.dtype.kind in "UST":
        same = np.array_equal(live.astype(str), ours.astype(str))
        return "" if same else f"{ours.tolist()}, OpenVINO {live.tolist()}"
    if ours.dtype.kind == "b" or live.dtype.kind == "b":
        wrong = live.astype(bool) != ours.astype(bool)
    elif live.dtype.kind != "f":
        wrong = live != ours.astype(live.dtype)
    else:
        wrong = ~close(live, ours, limit)
    if not wrong.any():
        return ""
    at = tuple(int(v) for v in np.argwhere(wrong)[0])
    many = f"{int(wrong.sum())} of {wrong.size} values; "
    return f"{many}at {list(at)} {ours[at]}, OpenVINO {live[at]}"


def close(a: Array, b: Array, limit: float) -> Any:
    """Where numbers are the same but for this share of the largest finite one of the second."""
    x, y = a.astype(np.float64), b.astype(np.float64)
    room = limit * max(1.0, float(np.abs(y[np.isfinite(y)]).max(initial=0)))
    return np.isclose(x, y, rtol=0, atol=room, equal_nan=True)


def shown(shape: Any) -> str:
    if shape is None:
        return "[...]"
    dims = (str(a) if a == b else "?" if (a, b) == (0, -1) else f"{a}..{b}" for a, b in shape)
    return f"[{','.join(dims)}]"


def _compatible(a: Any, b: Any) -> bool:
    """Whether some shape fits both; -1 has no end."""
    if a is None or b is None:
        return True
    rows = zip(a, b, strict=False)
    return len(a) == len(b) and all(
        (x[1] < 0 or y[0] <= x[1]) and (y[1] < 0 or x[0] <= y[1]) for x, y in rows
    )


def is_wider(live: Inferred, ours: Inferred) -> bool:
    """Whether OpenVINO infers an exact size, or a rank, where irdeconv leaves it open."""
    a, b = live[1], ours[1]
    if a is None or b is None:
        return a is not None
    return any(x[0] == x[1] and y[0] != y[1] for x, y in zip(a, b, strict=False))


@dataclass
class Ours:
    """irdeconv's side: what it refuses, or the inferred graph and what a run contradicted."""

    errors: tuple[str, ...] = ()
    graph: Graph | None = None
    found: tuple[Finding, ...] = ()


def ours_of(model: Model) -> Ours:
    """Validate, infer and run an IR; every array is held against what inference said of it."""
    try:
        refused = [d for d in ird.validate(model.xml, model.weights) if d.severity == "error"]
    except UsageError as e:  # a text of another format
        return Ours((str(e),))
    errors = tuple("\n".join([str(d), *(f"note: {n.message}" for n in d.notes)]) for d in refused)
    if errors:
        return Ours(errors)
    graph = ird.infer(ird.read(model.xml, model.weights))
    found: list[Finding] = []

    def held(node: Node, arrays: Sequence[Array]) -> None:
        for port, array in enumerate(arrays):
            why = contradiction(node.spec(port), array)
            if why:
                found.append(Finding("inference contradicted", node.name, f"port {port}: {why}"))

    try:
        ird.run(graph, dict(model.feeds), form=None, trace=held, max_memory=MEMORY)
    except IrdeconvError as e:
        return Ours((str(e),), graph, tuple(found))
    return Ours((), graph, tuple(found))


def contradiction(spec: Spec, array: Array) -> str:
    """Say what inference was wrong about; empty where it was right."""
    if spec.dtype is not None and spec.dtype.container != array.dtype:
        return f"inferred {spec.dtype}, ran {array.dtype}"
    if spec.shape is not None:
        exact = len(spec.shape) == array.ndim
        if not exact or any(
            merge(a, b) is None for a, b in zip(spec.shape, array.shape, strict=True)
        ):
            return f"inferred {spec}, ran {list(array.shape)}"
    if spec.value is None or array.dtype.kind in "OSUT":
        return ""
    known = zip(spec.value.reshape(-1), array.reshape(-1), strict=True)
    return next((f"value {a}, ran {b}" for a, b in known if not _is(a, b)), "")


def _is(said: Any, ran: Any) -> bool:
    if isinstance(said, Interval):
        low, high = bounds(said)
        return bool(low <= ran and (high is None or ran <= high))
    return bool(said == ran) or bool(said != said and ran != ran)


def shapes_apart(graph: Graph, live: Answer) -> tuple[list[Finding], int, int]:
    """Return layers whose types or shapes exclude each other; how many are wider and narrower."""
    found, wider, narrower = [], 0, 0
    names = Counter(n.name for n in graph.nodes())
    for node in graph.topological():
        type_name, theirs = live.layers.get(node.name, ("", ()))
        # Converts that version 10 implies take the names of what they read.
        if (
            node.type == "Result"
            or names[node.name] > 1
            or (type_name in ("Convert", "Result") and type_name != node.type)
        ):
            continue
        for port, their in enumerate(theirs[: max(node.outputs, 1)]):
            our = inferred(node.spec(port))
            if our[0] != their[0]:
                found.append(Finding("type", node.name, f"{our[0]}, OpenVINO {their[0]}"))
            elif not _compatible(our[1], their[1]):
                said = f"{node.spec(port)}, OpenVINO {shown(their[1])}"
                found.append(Finding("inferred", node.name, said))
            wider += is_wider(their, our)
            narrower += is_wider(our, their)
    return found, wider, narrower


def values_apart(graph: Graph, live: Answer, feeds: Mapping[str, Array]) -> Finding | None:
    """Return the first layer whose values rounding does not explain; by `compare`."""
    graph, arrays = _named_apart(graph), {}
    for result, array in zip(graph.results, live.arrays, strict=True):
        source = graph.inputs_of(result.id)[0]
        node = graph.node(source.node)
        if node.type in ("Parameter", "Const"):
            continue
        dtype = node.spec(source.port).dtype
        name = node.name if max(node.outputs, 1) == 1 else f"{node.name}.{source.port}"
        computed_in_f32 = dtype is not None and dtype.name == "f64"
        arrays[name] = array.astype(np.float32) if computed_in_f32 else array
    if not arrays:
        return None
    first = ird.compare(graph, arrays, dict(feeds)).first_difference
    return None if first is None else Finding("values", first.name, str(first))


def _named_apart(graph: Graph) -> Graph:
    """Return the graph with a name of its own for every layer: `compare` goes by names."""
    nodes = sorted(graph.nodes(), key=lambda n: n.type != "Parameter")
    names = unique(n.name for n in nodes)
    if names == [n.name for n in nodes]:
        return graph
    out = graph.copy()
    for node, name in zip(nodes, names, strict=True):
        out.node(node.id).name = name
    return ird.infer(out)


def same_as_lowered(graph: Graph, feeds: Mapping[str, Array]) -> Finding | None:
    """Return where the graph without deconvolutions gives something else."""
    first = ird.compare(graph, ird.lower(graph).graph, dict(feeds)).first_difference
    return None if first is None else Finding("lowered", first.name, str(first))
