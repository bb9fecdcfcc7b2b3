"""Inspection of large models, and as JSON."""

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.base.errors import InferenceError
from irdeconv.base.form_names import CONDITIONS
from irdeconv.formats.document import NoWeights
from irdeconv.formats.reading import load
from irdeconv.ir.constant import FileData
from irdeconv.ir.dtypes import ELEMENT_TYPES, f32
from irdeconv.ir.graph import Graph, Info, Value
from irdeconv.ir.op import REGISTRY, Op, lookup, parse_attributes
from irdeconv.ir.spec import Dim, Interval, Spec, parse_dim
from irdeconv.ops.activation import ReLU
from irdeconv.ops.basic import Const, Opaque, Section
from irdeconv.ops.bodies import Body, BodyInput, BodyOp, BodyOutput, Slicing
from irdeconv.ops.dialect_openvino import ConvolutionBackpropData
from irdeconv.ops.elementwise import Add
from irdeconv.ops.indexing import TopK
from irdeconv.ops.movement import Concat
from irdeconv.show.layers import ConstantSources
from large_graphs import LARGE_GRAPHS, chain, sums_of_constants
from op_cases import all_cases
from support import irbuild as ib
from support.layers import begun, constant, numbers, parameter, random_layer, result
from support.layers import build as build_layer
from support.networks import network

# A graph made of the JSON of an inspection alone, and what of a graph that JSON has.


def rebuilt(document: dict[str, Any]) -> Graph:
    """Build the graph; constants have no data, no spec has a value."""
    graph = Graph(
        Info(
            name=document["name"],
            ir_version=document["ir_version"],
            file=document["file"],
            rt_info=document.get("rt_info"),
            extra=tuple(document.get("extra", {}).items()),
        )
    )
    _add_layers(graph, document["layers"])
    return graph


def _add_layers(graph: Graph, layers: list[dict[str, Any]]) -> None:
    for layer in layers:
        node = graph.add(
            _operation(layer), name=layer["name"], id=layer["id"], origins=tuple(layer["origins"])
        )
        node.specs = tuple(map(_spec, layer["outputs"]))
        node.tensor_names = tuple(tuple(o["tensor_names"]) for o in layer["outputs"])
        node.rt_info = layer.get("rt_info")
        node.port_rt_info = tuple(map(tuple, layer.get("port_rt_info", ())))
        node.extra = tuple(layer.get("extra", {}).items())
    for layer in layers:
        for port, i in enumerate(layer["inputs"]):
            graph.connect(Value(i["producer"], i["port"]), layer["id"], port)


def _body(written: dict[str, Any]) -> Body:
    graph = Graph(Info(name=written["tag"], rt_info=written.get("rt_info")))
    _add_layers(graph, written["layers"])
    for entry in (*written["inputs"], *written["outputs"]):
        entry["slicing"] = entry["slicing"] and Slicing(**entry["slicing"])
    return Body(
        graph,
        tuple(BodyInput(**i) for i in written["inputs"]),
        tuple(BodyOutput(**o) for o in written["outputs"]),
        tuple((e["result"], e["parameter"]) for e in written["edges"]),
        written["tag"],
    )


def skeleton(graph: Graph) -> Graph:
    """Return a copy without what JSON leaves out: values, and what a file declares besides."""
    out = graph.copy()
    for node in out.nodes():
        specs = tuple(s.without_value() for s in node.specs or node.declared)
        while graph.users(Value(node.id, len(specs))):
            specs += (Spec(None, None),)  # nobody knows what it is, but it is read
        node.specs = specs
        node.tensor_names = (*node.tensor_names, *((),) * len(specs))[: len(specs)]
        node.declared = node.declared_inputs = ()
        op = node.op
        if isinstance(op, Const):
            size = op.data.size if isinstance(op.data, FileData) else len(op.data.raw())
            out.replace_op(node.id, _const(op.element_type, op.shape, size))
        elif isinstance(op, Opaque):
            made = Opaque(op.kind, op.opset, op.data, specs, op.sections, None, op.stateful)
            out.replace_op(node.id, made)
        elif isinstance(op, BodyOp):
            out.replace_op(node.id, op.with_graphs(skeleton))
    return out


def _const(element_type: Any, shape: Any, size: int) -> Const:
    data = FileData(NoWeights("?"), 0, size, element_type, shape)
    return Const(element_type=element_type, shape=shape, data=data)


def _operation(layer: dict[str, Any]) -> Op:
    attributes = layer["attributes"]
    if layer.get("opaque"):
        return Opaque(
            kind=layer["type"],
            opset=layer["version"],
            data=tuple(attributes.items()),
            declared=tuple(map(_spec, layer["outputs"])),
            sections=tuple(
                Section(s["tag"], s["xml"].encode("utf-8", "surrogateescape"))
                for s in layer.get("sections", ())
            ),
            stateful=layer.get("stateful", False),
        )
    cls = lookup(layer["type"], layer["version"])
    assert cls is not None
    place = ("offset", "size") if cls is Const else ()
    values, problems = parse_attributes(
        cls, {k: v for k, v in attributes.items() if k not in place}
    )
    assert [p for p in problems if p.severity == "error"] == []
    if cls is Const:
        return _const(values["element_type"], values["shape"], layer["bytes"])
    if issubclass(cls, BodyOp):
        return cls(**values, bodies=tuple(map(_body, layer["bodies"])))
    fields = layer.get("fields", {})
    return cls(**values, **{k: ELEMENT_TYPES.get(str(v), v) for k, v in fields.items()})


def _spec(written: dict[str, Any]) -> Spec:
    kind, shape = written["element_type"], written["shape"]
    dims: list[Dim] = [d if isinstance(d, int) else parse_dim(d) for d in shape or ()]
    return Spec(kind and ELEMENT_TYPES[kind], None if shape is None else tuple(dims))


# Large graphs: reading and inspecting them takes work in proportion to their layers.

SIZES = (80, 160, 320)
FORMATS: dict[str, Callable[[Any], Any]] = {
    "text": lambda i: i.to_text(constants=True),
    "json": lambda i: i.to_json(),
    "dot": lambda i: i.to_dot(),
    "svg": lambda i: i.to_svg(),
    "ir": lambda i: ird.dump(i.graph, elide=0, comments=i.comments()),
}


def calls(work: Callable[[], object]) -> int:
    """Count the calls of Python functions, resumed generators and built-in functions."""
    counted = 0

    def count(_: object, event: str, __: object) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return counted


def is_linear(counts: list[int]) -> bool:
    """Whether what each doubling adds about doubles, too; a square would add four times as much."""
    first, second = counts[1] - counts[0], counts[2] - counts[1]
    return second <= 2.5 * first


def test_the_measure_tells_a_square() -> None:
    def squares(n: int) -> None:
        for _ in range(n):
            sum(1 for _ in range(n))

    assert not is_linear([calls(lambda n=n: squares(n)) for n in SIZES])  # type: ignore[misc]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("build", LARGE_GRAPHS, ids=lambda f: f.__name__)
def test_work_is_in_proportion_to_layers(build: Callable[[int], Graph], tmp_path: Path) -> None:
    work: dict[str, list[int]] = {}

    def measured(name: str, f: Callable[[], Any]) -> Any:
        out: list[Any] = []
        work.setdefault(name, []).append(calls(lambda: out.append(f())))
        return out[0]

    for n in (20, *SIZES):  # the first fills caches
        path = tmp_path / f"{n}.xml"
        ird.write(build(n), path)
        read = measured("read", lambda path=path: ird.read(path))
        graph = measured("infer", lambda read=read: ird.infer(read))
        measured("cycle", graph.cycle)
        found = measured("inspect", lambda graph=graph: ird.inspect(graph))
        for name, render in FORMATS.items():
            measured(name, lambda render=render, found=found: render(found))
    assert [name for name, counts in work.items() if not is_linear(counts[1:])] == []


def sets_behind(graph: Graph) -> dict[int, frozenset[int]]:
    """Return the constants behind every node that depends on constants alone, by definition."""
    found: dict[int, frozenset[int]] = {}
    for node in graph.topological():
        producers = [v.node for v in graph.inputs_of(node.id)]
        if node.type == "Const":
            found[node.id] = frozenset([node.id])
        elif producers and node.type != "Result" and all(p in found for p in producers):
            found[node.id] = frozenset[int]().union(*(found[p] for p in producers))
    return found


def random_graph(rng: np.random.Generator, n: int) -> Graph:
    """Additions of constants and of their sums, some of which the model's input meets."""
    g, y = begun((4,))
    values: list[Value] = []
    sums: list[Value] = []
    for i in range(n):
        kind = rng.random() if values else 0
        if kind < 0.4:
            values.append(constant(g, np.ones(int(rng.integers(1, 5)), np.float32), f"c{i}"))
            continue
        pair = [values[int(rng.integers(0, len(values)))] for _ in range(2)]
        if sums:
            pair[0] = sums[-1]
        if kind < 0.8:
            sums.append(Value(g.add(Add(), pair, name=f"a{i}").id))
            values.append(sums[-1])
        else:
            y = Value(g.add(Concat(axis=0), [y, *pair], name=f"r{i}").id)
    return g


@pytest.mark.parametrize("seed", range(8))
def test_constants_behind_a_layer(seed: int) -> None:
    g = random_graph(np.random.default_rng(seed), 160)
    expected = sets_behind(g)
    sources = ConstantSources(g, {n.id: g.inputs_of(n.id) for n in g.nodes()})
    assert {n.id for n in g.nodes() if n.id in sources} == set(expected)
    assert max(map(len, expected.values())) > 6
    for node in g.nodes():
        producers = [v.node for v in g.inputs_of(node.id)]
        behind = frozenset[int]().union(*(expected.get(p, ()) for p in producers))
        elements = sum(g.node(c).op.shape[0] for c in behind)  # type: ignore[attr-defined]
        assert sources.behind(producers) == (elements, 4 * elements)


def test_sizes_of_many_constants_beyond_64_bits() -> None:
    g = sums_of_constants(90)
    for node in list(g.nodes("Const"))[1:]:
        huge = REGISTRY["Const", "opset1"](node.op.element_type, (2**61,), node.op.data)  # type: ignore[attr-defined]
        g.replace_op(node.id, huge)
    last = next(r for r in ird.inspect(g).layers if r.name == "read_29")
    assert last.parameters == 30 * 2**61 + 4


def test_cycles() -> None:
    g = chain(6)
    assert g.cycle() == []
    g.add(Add(), [Value(3)], name="a")
    g.add(Add(), [Value(8)], name="b")
    g.connect(Value(9), 8, 1)
    assert sorted(g.cycle()) == ["a", "b"]
    following = g.cycle()
    for name, after in zip(following, [*following[1:], following[0]], strict=True):
        assert g.find(after)[0].id in g.successors(g.find(name)[0].id)
    assert ird.inspect(g).to_text()


def test_a_layer_that_reads_itself_is_a_cycle() -> None:
    g = Graph()
    g.add(Add(), [parameter(g, (2,), np.float32, "x")], name="a")
    g.connect(Value(1), 1, 1)
    assert g.cycle() == ["a"]


def test_ports_stay_dense_after_changes() -> None:
    g = chain(2)
    node = g.add(Add(), [Value(0)], name="a")
    g.set_input(node.id, 0, Value(1))
    copy = g.copy()
    copy.connect(Value(2), node.id, 1)
    with pytest.raises(ird.IrdeconvError, match="dense"):
        copy.connect(Value(2), node.id, 1)
    g.connect(Value(2), node.id, 1)


def test_lowering_many_deconvolutions_takes_work_in_proportion() -> None:
    def deconvolutions(n: int) -> Graph:
        g, y = begun((1, 1, 4))
        op = ConvolutionBackpropData(strides=(1,), pads_begin=(1,), pads_end=(1,))
        for i in range(n):
            w = constant(g, np.ones((1, 1, 3), np.float32), f"w{i}")
            y = Value(g.add(op, [y, w], name=f"up{i}").id)
        result(g, y)
        return ird.infer(g)

    counts = []
    for n in (5, 20, 40, 80):
        g = deconvolutions(n)
        counts.append(calls(lambda g=g: str(ird.inspect(g, ird.lower(g)))))
    assert is_linear(counts[1:])


def test_the_collector_of_garbage_runs_again_after_the_verb(tmp_path: Path) -> None:
    import gc

    from irdeconv.cli.main import main

    ird.write(chain(3), tmp_path / "net.xml")
    assert gc.isenabled()
    out, sys.stdout = sys.stdout, io.StringIO()
    try:
        assert main(["inspect", str(tmp_path / "net.xml")]) == 0
    finally:
        sys.stdout = out
    assert gc.isenabled()


# The JSON of an inspection: a graph can be built from it that is the same but for values.

SAMPLES = Path(__file__).parent.parents[1] / "ir_samples"
FORMS = tuple(CONDITIONS)


def same(graph: Graph) -> None:
    """Rebuild a graph from its JSON text and compare the two as text."""
    document = json.loads(ird.inspect(graph).to_json())
    assert ird.dump(skeleton(rebuilt(document))) == ird.dump(skeleton(graph))


@pytest.mark.parametrize(
    "path", sorted(SAMPLES.rglob("*.xml")), ids=lambda p: f"{p.parent.name}/{p.stem}"
)
def test_samples(path: Path) -> None:
    graph = load(path).graph
    assert graph is not None
    same(graph)
    try:
        same(ird.infer(graph))
    except InferenceError:
        assert path.parent.name == "broken"


@pytest.mark.parametrize("form", FORMS)
def test_networks_before_and_after_lowering(form: str) -> None:
    rng = np.random.default_rng(11)
    graphs = [network()]
    for _ in range(8):
        layer = random_layer(rng)
        x, w = (numbers(rng, s, np.float32) for s in (layer.data_shape, layer.filter_shape))
        graphs.append(build_layer(layer, x, w, shape_source="computed")[0])
    for graph in graphs:
        same(ird.infer(graph))
        same(ird.lower(graph, form).graph)


def test_every_operation() -> None:
    for name, row in all_cases().items():
        op, _ = row.build()
        graph = Graph(Info(name))
        inputs = []
        for n, tensor in enumerate(row.inputs):
            node = graph.add(
                REGISTRY["Parameter", "opset1"](tensor.spec.shape, tensor.dtype), name=f"{n}"
            )
            inputs.append(Value(node.id))
        node = graph.add(op, inputs, name="op")
        node.specs = tuple(t.spec for t in row.outputs)
        for port in range(len(row.outputs)):
            result(graph, Value(node.id, port), f"y{port}")
        same(graph)


@pytest.mark.parametrize(
    ("xml", "key"),
    [
        (ib.loop(), "bodies"),
        (ib.loop().replace("TensorIterator", "Mystery"), "sections"),
        (ib.state(), None),
    ],
    ids=["loop", "unknown", "state"],
)
def test_bodies_and_state(xml: str, key: str | None) -> None:
    graph = load(xml.encode(), b"\0\0\0\0").graph
    assert graph is not None
    same(graph)
    found = [{"bodies", "sections"} & set(r) for r in ird.inspect(graph).to_dict()["layers"]]
    assert [key] * (key is not None) == [k for keys in found for k in keys]


def test_what_attributes_do_not_spell() -> None:
    """Fields that the IR has no attribute for, open shapes, XML that only a file has."""
    g, x = begun(
        (1, 2, None, None), info=Info("net", 10, rt_info="<rt_info/>", extra=(("k", "v"),))
    )
    g.node(x.node).specs = (Spec(f32, (1, 2, Interval(3, 9), Interval(0, None))),)
    w = constant(g, np.ones((2, 3, 3, 3), np.float32), "w")
    up = g.add(ConvolutionBackpropData(semantics="document"), [x, w], name="up")
    up.specs = (Spec(f32, None),)
    up.rt_info, up.port_rt_info = "<rt_info><a/></rt_info>", (("input", 1, "<rt_info/>"),)
    up.tensor_names, up.extra = (("a", "b"),), (("output_names", "z"),)
    top = TopK(axis=1, mode="max", sort="value", index_element_type=ELEMENT_TYPES["i64"])
    node = g.add(top, [Value(up.id), constant(g, np.int64(1), "k")], name="top")
    node.specs = (Spec(f32, None), Spec(None, (4,)))
    odd = Opaque("Odd", "v", (("k", 'v"'),), (Spec(f32, ()),), (Section("body", b"<b>\xff</b>"),))
    g.add(odd, [Value(node.id, 1)], name="odd")
    result(g, Value(node.id), "y")
    same(g)
    row = ird.inspect(g).to_dict()["layers"][2]
    assert row["fields"] == {"semantics": "document"}
    assert row["outputs"][0]["shape"] is None
    assert ird.inspect(g).to_dict()["layers"][0]["outputs"][0]["shape"] == [1, 2, "3..9", "?"]


def test_ends_are_in_order() -> None:
    g = Graph()
    for name in "bac":
        y = parameter(g, (2,), np.float32, name)
        result(g, Value(g.add(ReLU(), [y], name=f"{name}/relu").id), f"{name}/out")
    d = ird.inspect(g).to_dict()
    assert [i["name"] for i in d["inputs"]] == ["b", "a", "c"]
    assert [o["name"] for o in d["outputs"]] == ["b/out", "a/out", "c/out"]
    assert [o["id"] for o in d["outputs"]] == [n.id for n in g.results]


def test_places_and_declarations() -> None:
    xml = ib.net(
        [ib.parameter(0, "x"), ib.relu(1, "r"), ib.result(2, "y")], (0, 0, 1, 0), (1, 1, 2, 0)
    )
    xml = xml.replace(
        '<port id="1" precision="FP32"><dim>2</dim>', '<port id="1" precision="FP32"><dim>7</dim>'
    )
    graph = load(xml.encode(), b"").graph
    assert graph is not None
    relu = ird.inspect(ird.infer(graph)).to_dict()["layers"][1]
    assert relu["outputs"][0]["shape"] == [2, 3]
    assert relu["outputs"][0]["declared"] == {"element_type": "f32", "shape": [7, 3]}
    assert xml.splitlines()[relu["line"] - 1].startswith('<layer id="1" name="r"')


def test_a_layer_stands_on_a_line() -> None:
    text = ird.inspect(ird.infer(network()), ird.lower(network())).to_json()
    document = json.loads(text)
    lines = [line.strip().rstrip(",") for line in text.splitlines()]
    for layer in (*document["layers"], *document["lowered"]["layers"]):
        assert json.dumps(layer) in lines
