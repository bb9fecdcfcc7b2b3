"""The second checker: it agrees with the proof, finds every fault, and says where it stops."""

import re
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.cli.main import main
from irdeconv.formats.xml_writer import ir_bytes
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.op import REGISTRY
from irdeconv.proof.definition import LayerDefinition
from irdeconv.rewrite.forms import FORMS
from irdeconv.verify import second_check
from irdeconv.verify.second_check import (
    AGREES,
    DIFFERS,
    NOT_APPLICABLE,
    SecondAnswer,
    openvino_shapes,
)
from irdeconv.verify.second_reading import SecondLayer, SecondModel, Unfollowed
from irdeconv.verify.second_relations import Attributes, SecondFacts, flat, linear, product
from support import dialect_layers, dialect_random, layers
from support.commands import Capture, Patch, answer
from support.dialect_layers import VERSIONS
from support.mutants import mutants
from support.proof_layers import OPENVINO, random_model
from support.rows import parts
from support.second import second_answer
from test_certificate import mutable

# Reasons for no answer at open sizes: products of sizes, and many combinations of cases.
OPEN = re.compile("open sizes|too many operations|isl_")


def check_random(seed: int, form: str | None = None, system: str | None = None) -> str:
    """Both checkers agree on a random layer in a form."""
    rng = np.random.default_rng(seed)
    model = random_model(rng)
    while system not in (None, model.system):
        model = random_model(rng)
    chosen = form or str(rng.choice(list(FORMS)))
    low = ird.lower(model.graph, chosen).graph
    verdict, text = second_answer(model.graph, low)
    assert ird.check_certificate(model.graph, low).equal
    note = (seed, chosen, model.system, model.text, text)
    computed = model.dynamic or "output_shape" in model.text
    assert verdict == AGREES or (verdict == NOT_APPLICABLE and computed and OPEN.search(text)), note
    return verdict


@pytest.mark.sampled(10)
@pytest.mark.thorough
@pytest.mark.parametrize("system", [OPENVINO, *VERSIONS])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_every_system(form: str, system: str) -> None:
    check_random(sum(map(ord, form + system)), form, system)


@pytest.mark.sampled(1)
@pytest.mark.thorough
@pytest.mark.parametrize("block", parts(2, 110))
def test_random_layers(block: int) -> None:
    verdicts = [check_random(seed) for seed in range(8 * block, 8 * block + 8)]
    assert verdicts.count(AGREES) >= 6


@pytest.mark.thorough
@pytest.mark.parametrize("step", parts(1, range(36)))
def test_mutants_are_never_called_equal(step: int) -> None:
    """Every fault of `support.mutants` changes the result; nearly all are called different."""
    verdicts = []
    for name, source, low in mutable()[step % 3 :: 3]:
        assert second_answer(source, low)[0] == AGREES
        for text, mutant in list(mutants(low))[step // 3 :: 12]:
            try:
                verdict, reason = second_answer(source, mutant)
            except ird.InferenceError:
                continue  # a mutant that no file can contain
            assert verdict != AGREES, (name, text, reason)
            verdicts.append(verdict)
    assert verdicts.count(DIFFERS) >= 0.9 * len(verdicts) > 5


def layer(**changes: Any) -> layers.Layer:
    """Two groups with C/g != M/g, other numbers on each axis."""
    made = layers.Layer(2, (4, 3), 2, 1, 3, (3, 4), (2, 3), (1, 2), (1, -2), (0, 1), (1, 0))
    return replace(made, **changes)


def source_of(made: layers.Layer, data_shape: Any = None, shape_source: str = "const") -> Graph:
    size = int(np.prod(made.filter_shape))
    w = (np.random.default_rng(5).permutation(size) + 1).reshape(made.filter_shape)
    x = np.zeros(made.data_shape, np.float32)
    sizes = {"data_shape": data_shape, "shape_source": shape_source}
    return ird.infer(layers.build(made, x, w.astype(np.float32), **sizes)[0])


def test_a_fault_of_the_core_is_found(monkeypatch: Patch) -> None:
    """The core reads pads that are one less at the begin; what it proves then is different."""
    source = source_of(layer())
    low = ird.lower(source_of(layer(pads_begin=(0, -2), pads_end=(1, 1))), "stacked").graph
    window = LayerDefinition.window

    def shifted(self: Any, a: int, *args: Any) -> Any:
        begin, count = window(self, a, *args)
        return begin - (a == 0 and not self.forward), count

    assert not ird.check_certificate(source, low).equal
    monkeypatch.setattr(LayerDefinition, "window", shifted)
    assert ird.check_certificate(source, low).equal
    verdict, text = second_answer(source, low)
    assert verdict == DIFFERS, text


@pytest.mark.parametrize("version", [OPENVINO, *VERSIONS])
def test_windows_by_their_own_definition(version: str) -> None:
    """Begin and size of every axis, against the rules that the tests are written from."""
    rng = np.random.default_rng(11)
    for _ in range(60):
        made: Any
        if version == OPENVINO:
            made = layers.random_layer(rng)
            wanted, document = made.output_shape, made.semantics == "document"
        else:
            made, wanted = dialect_random.random_layer(rng, version), None
            document = made.get("semantics") == "document"

        named = made.op.type, made.op.version, made.op.to_attributes()
        op: Any = SimpleNamespace(layer=SecondLayer("x", *named, (), ()))
        op.side = SimpleNamespace(model=SimpleNamespace(document=document))
        op.sizes = lambda i, made=wanted or (): made
        found = Attributes(op, made.axes)
        rows = enumerate(zip(made.size, made.kernel, strict=True))
        windows = [found.window(a, n, k) for a, (n, k) in rows]
        assert [tuple(map(SecondFacts().simple, row)) for row in windows] == made.window()


def changed(graph: Graph, node: int, op: Any) -> Graph:
    out = graph.copy()
    out.replace_op(node, op)
    return out


def test_sums_of_several_taps() -> None:
    """A filter as the sum of two: each element of the data is read twice for an output."""
    made = layer(strides=(1, 1), dilations=(1, 1), pads_begin=(0, 0), pads_end=(0, 0))
    source = source_of(replace(made, output_padding=(0, 0)))
    for off, wanted in ((0, AGREES), (1, DIFFERS)):
        low = ird.lower(source, "zero-insertion").graph
        (conv,) = low.nodes("GroupConvolution")
        x, w = low.inputs_of(conv.id)
        array = low.node(w.node).op.data.array()  # type: ignore[attr-defined]
        low.set_input(conv.id, 1, layers.constant(low, array - 2, "less"))
        other = layers.constant(low, np.full_like(array, 2 + off), "more")
        more = low.add(conv.op, [x, other], name="second")
        inputs = [Value(conv.id), Value(more.id)]
        total = low.add(REGISTRY["Add", "opset1"](), inputs, name="total")
        (result,) = low.results
        low.set_input(result.id, 0, Value(total.id))
        total.tensor_names, conv.tensor_names = conv.tensor_names, ()
        verdict, text = second_answer(source, ird.infer(low))
        assert verdict == wanted, text


def test_biases_and_activations() -> None:
    rng = np.random.default_rng(3)
    made = dialect_random.random_layer(rng, "com.ms.internal.nhwc_11", semantics="runtime")
    made = replace(made, bias=0, attributes={"strides": (2,) * made.axes, "activation": "Relu"})
    arrays = [np.zeros(s, np.float32) + 1 for s in replace(made, groups=1).shapes]
    graph = ird.infer(dialect_layers.build(replace(made, groups=1), arrays, inputs=(0,))[0])
    low = ird.lower(graph, "zero-insertion").graph
    assert second_answer(graph, low)[0] == AGREES
    (relu,) = low.nodes("ReLU")
    verdict, text = second_answer(graph, changed(low, relu.id, REGISTRY["Tanh", "opset1"]()))
    assert verdict == DIFFERS
    assert "activations" in text
    adds = [n for n in low.nodes("Add") if n.origins and (n.spec().rank or 0) > 2]
    subtract = REGISTRY["Subtract", "opset1"]()
    verdict, text = second_answer(graph, changed(low, adds[0].id, subtract))
    assert verdict == DIFFERS, text


def test_what_is_not_followed() -> None:
    graph = source_of(layer())
    low = ird.lower(graph, "zero-insertion").graph
    pad = next(n for n in low.nodes("Pad") if n.origins)
    verdict, text = second_answer(graph, changed(low, pad.id, replace(pad.op, pad_mode="edge")))  # type: ignore
    assert verdict == NOT_APPLICABLE
    assert "pads with something else than zeros" in text
    with ird.Limits(work=4096).applied():
        verdict, text = second_answer(graph, low)
    assert verdict == NOT_APPLICABLE
    assert "the limit of work, 4,096 units" in text
    with pytest.raises(Unfollowed, match="not in the weights"):
        SecondModel(ir_bytes(low)[0], b"")


def test_a_difference_at_large_sizes_only() -> None:
    """Pads that are right up to a size of 1000."""
    graph = source_of(layer(groups=None, pads_begin=(1, 0)), [1, 1, None, 3])
    low = ird.lower(graph, "zero-insertion").graph
    (pad,) = [n for n in low.nodes("Pad") if n.origins]
    assert second_answer(graph, low)[0] == AGREES
    data, begin = low.inputs_of(pad.id)[:2]

    def add(name: str, version: str, *inputs: Any) -> Value:
        ports = [
            i if isinstance(i, Value) else layers.constant(low, np.array(i), "c") for i in inputs
        ]
        return Value(low.add(REGISTRY[name, version](), ports, name=name).id)

    beyond = add("Subtract", "opset1", add("ShapeOf", "opset3", data), [0, 0, 1000, 1000])
    one = add("Multiply", "opset1", add("Maximum", "opset1", beyond, [0] * 4), [0, 0, 1, 0])
    low.set_input(pad.id, 1, add("Add", "opset1", begin, one))
    verdict, text = second_answer(graph, low)
    assert verdict == DIFFERS, text


@pytest.mark.sampled(3)
@pytest.mark.parametrize("auto_pad", ["explicit", "same_upper", "same_lower", "valid"])
@pytest.mark.parametrize("shape_source", ["const", "input", "computed"])
def test_pads_that_follow_from_sizes(auto_pad: str, shape_source: str) -> None:
    """Half of what is cut off at open sizes makes too many cases for isl, which is said."""
    made = layer(auto_pad=auto_pad, output_shape=(9, 8), output_padding=(0, 1))
    halves = auto_pad.startswith("same") and shape_source != "const"
    for shape in ([2, 2, 4, 3], [None, 2, 4, 3]):
        graph = source_of(made, shape, shape_source)
        verdict, text = second_answer(graph, ird.lower(graph, "zero-insertion").graph)
        assert verdict == AGREES or (halves and "too many operations" in text), (shape, text)


def test_sizes_by_hand() -> None:
    facts = SecondFacts()
    x, y = facts.size("d0_0", 1, 100), facts.size("d0_1")
    assert facts.equal(f"floor(({x} * 4 + {y} * 8)/4)", f"{x} + {y} * 2")
    assert facts.simple(f"({x} * 4 + 3) mod 4") == 3
    assert facts.simple("max(2, 3)") == facts.simple(f"max({x} * 0 + 2, 3)") == 3
    assert facts.equal(facts.simple(f"max({x}, 1)"), x)
    halves = facts.simple(f"floor(max({x} - 3, 0)/2)")
    assert facts.simple(f"floor(max({x} - 3, 0)/2) + 0") == halves
    assert facts.equal(facts.simple(f"{halves} * 2 + max({x}, 2)"), f"2 * {halves} + max({x}, 2)")
    assert not facts.equal(f"max({x}, 2)", x)
    assert facts.holds(x, ">=", 1)
    assert not facts.holds(x, ">=", 2)
    assert facts.equal(facts.quotient(product((x, y, 6)), f"(3 * {x})") or 0, f"2 * {y}")
    assert facts.quotient(product((f"(2 * {x})", y)), product((y, x))) == 2
    assert facts.quotient(x, y) is None
    assert facts.quotient(x, 2) is None
    assert facts.quotient(product((x, y)), product((y, x))) == 1
    merged = product((x, y))
    for text in (linear(x, (y, y)), f"{merged} + 1", f"{x} * {y}", f"floor({x}/{y})"):
        with pytest.raises(Unfollowed, match="open sizes"):
            facts.simple(text)
    assert flat([merged]) == [x, y]
    for text in (f"{merged} + 1", f"({merged})", f"1 - {merged}", f"{merged} mod 3"):
        with pytest.raises(Unfollowed, match="open sizes"):
            flat([text])


# `check-certificate --second`.

SAMPLE = Path(__file__).resolve().parents[2] / "ir_samples/openvino/segmentation_head.xml"


@pytest.fixture
def pair(tmp_path: Path) -> list[str]:
    """A sample and what it is lowered to, as arguments of check-certificate."""
    lowered = tmp_path / "lowered.xml"
    assert main(["lower", str(SAMPLE), "-o", str(lowered), "--form", "phases", "--quiet"]) == 0
    return ["check-certificate", str(SAMPLE), str(lowered), "--second"]


@pytest.mark.oracles
def test_every_layer_is_checked_twice(pair: list[str]) -> None:
    """Layers without a rule lie in front: OpenVINO has their shapes."""
    out = answer(*pair).out
    assert "second ok   up1: agrees" in out
    assert "second ok   the model: agrees" in out
    shapes = openvino_shapes(SecondModel(SAMPLE.read_bytes(), b"\0" * (1 << 20)))
    assert shapes["up1", 0] == [1, 8, 16, 16]


@pytest.mark.parametrize("verdict", [DIFFERS, NOT_APPLICABLE])
def test_a_difference_fails(pair: list[str], monkeypatch: Patch, verdict: str) -> None:
    made = [SecondAnswer("up1", verdict, "because")]
    monkeypatch.setattr(second_check, "second_check", lambda *_: made)
    code = 1 if verdict == DIFFERS else 0
    assert f"{'FAIL' if code else '    '} up1: {verdict}: because" in answer(*pair, code=code).out
    content: dict[str, Any] = answer(*pair, "--format", "json", code=code).json
    assert content["passed"] is (code == 0)
    assert content["second"] == [{"layer": "up1", "verdict": verdict, "text": "because"}]


def test_islpy_that_is_missing(pair: list[str], monkeypatch: Patch) -> None:
    monkeypatch.setitem(sys.modules, "islpy", None)
    err = answer(*pair, code=4).err
    assert "--second needs the package islpy, which is not installed" in " ".join(err.split())
    assert "pip install 'irdeconv[isl]'" in err


def test_exact_sizes(tmp_path: Path, capsys: Capture) -> None:
    """--sizes makes open sizes exact, for both checkers."""
    graph = source_of(layer(), [None, 2, None, 3])
    ird.write(graph, tmp_path / "a.xml")
    ird.write(ird.lower(graph, "stacked").graph, tmp_path / "b.xml")
    names = [str(tmp_path / n) for n in ("a.xml", "b.xml")]
    assert main(["check-certificate", *names, "--second", "--sizes", "x=2,2,4,3"]) == 0
    assert "second ok   the model: agrees" in capsys.readouterr().out
