"""Certificates: every lowering is proved, every fault of a lowering is found, twice."""

import hashlib
import itertools
import json
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.base import work
from irdeconv.base.form_names import CONDITIONS
from irdeconv.cli.proofs import proof_code
from irdeconv.ir.dtypes import ELEMENT_TYPES
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.op import REGISTRY
from irdeconv.proof.definition import Relation
from irdeconv.proof.model import Unproved
from irdeconv.rewrite.forms import FORMS
from irdeconv.rewrite.infer_specs import inferred
from irdeconv.rewrite.standardize import standardize
from irdeconv.verify import probe
from irdeconv.verify.adapter import side_of
from irdeconv.verify.certificates import Certificate
from irdeconv.verify.check import checked, probed
from irdeconv.verify.probe import (
    LEAST_PRIME,
    PART,
    PRIMES_END,
    TERMS,
    PrimeField,
    is_prime,
    random_prime,
)
from random_dialects import chain, random_dialect, weights
from support import irbuild as ib
from support.commands import Patch
from support.dialect_layers import DIALECTS
from support.layers import Layer, build, constant, parameter, random_layer, result, sequential
from support.mutants import mutants
from support.rows import parts

pytestmark = pytest.mark.thorough

ALWAYS = [name for name, condition in CONDITIONS.items() if not condition]
SEED = 20250311
CHUNKS = 80
CASES = 2
ONE = (1, 1, 1)


def accepted(source: Graph, lowered: Graph) -> Counter[str]:
    """Prove and probe; return the claims."""
    made = ird.certify(source, lowered)
    report = ird.check_certificate(source, lowered, made)
    assert report.passed, str(report)
    probed = ird.check_certificate(source, lowered, probe=True)
    assert probed.passed, str(probed)
    return Counter((c.holds_for or "")[:10] for c in made)


def openvino(rng: np.random.Generator, *, dynamic: bool = False) -> Graph | None:
    layer = random_layer(rng, budget=300 if dynamic else 1200)
    w, x = weights(rng, layer.filter_shape), np.zeros(layer.data_shape, np.float32)
    dims = [None if dynamic and a != 1 else d for a, d in enumerate(x.shape)]
    source = str(rng.choice(["const", "input", "computed"]))
    graph, _ = build(
        layer, x, w, data_shape=dims, filter_input=bool(rng.random() < 0.35), shape_source=source
    )
    return graph if min(layer.output_size) >= 0 else None


@pytest.mark.sampled(1)
@pytest.mark.parametrize("chunk", parts(2, CHUNKS))
def test_random_layers_of_all_forms_are_proved(chunk: int) -> None:
    for case in range(CASES):
        graph = openvino(np.random.default_rng([SEED, chunk, case]))
        for form in FORMS if graph is not None else ():
            assert graph is not None
            source = ird.infer(graph)
            accepted(source, ird.lower(source, form).graph)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", DIALECTS)
@pytest.mark.parametrize("chunk", parts(2, 6))
def test_dialects_are_proved(kind: str, chunk: int) -> None:
    done = 0
    for case in range(6):
        rng = np.random.default_rng([SEED + 1, chunk, case])
        try:
            source = ird.infer(random_dialect(rng, kind, computed=case % 3 == 0))
        except ird.InferenceError:
            continue  # an output of size 0
        for form in FORMS:
            done += 1
            accepted(source, ird.lower(source, form).graph)
    assert done > 8


@pytest.mark.sampled(1)
@pytest.mark.parametrize("chunk", parts(2, 5))
def test_layers_of_unknown_size_are_proved(chunk: int) -> None:
    claims: Counter[str] = Counter()
    rng = np.random.default_rng([SEED + 2, chunk])
    graphs = [openvino(rng, dynamic=True), openvino(rng, dynamic=True)]
    graphs += [random_dialect(rng, kind, dynamic=True) for kind in list(DIALECTS)[:3]]
    for i, graph in enumerate(graphs):
        if graph is None:
            continue
        source = ird.infer(graph)
        claims += accepted(source, ird.lower(source, ALWAYS[(i + chunk) % len(ALWAYS)]).graph)
    assert claims["every size"] > 0


def test_the_proof_for_all_sizes_says_so() -> None:
    layer = Layer(1, (3, 4), 2, 2, 3, (3, 2), (2, 3), (1, 1), (1, 0), (0, 1), (1, 0))
    x = np.zeros(layer.data_shape, np.float32)
    graph, _ = build(
        layer, x, np.ones(layer.filter_shape, np.float32), data_shape=(None, 4, None, None)
    )
    source = ird.infer(graph)
    for form in ALWAYS:
        (made,) = ird.certify(source, ird.lower(source, form).graph)
        assert (made.holds_for or "").startswith("every size")
    computed, _ = build(
        replace(layer, output_shape=(7, 9)), x, np.ones(layer.filter_shape, np.float32),
        data_shape=(None, 4, None, None), shape_source="input",
    )  # fmt: skip
    (made,) = ird.certify(ird.infer(computed), ird.lower(computed).graph)
    assert (made.holds_for or "").startswith("every size (up to ")


# At sizes that are walked, what is padded is all of the output already: nothing is cropped then.
CROPPED = {
    "explicit": Layer(2, (9,), 1, 2, 3, (4,), (4,), (1,), (-1,), (0,), (5,)),
    "same_lower": Layer(1, (1,), None, 2, 3, (1,), (1,), (1,), (0,), (0,), (0,), "same_lower"),
}


@pytest.mark.parametrize("pads", CROPPED)
def test_what_is_padded_and_cropped_at_run_time_is_proved_behind_both(pads: str) -> None:
    layer = replace(CROPPED[pads], output_shape=(1,))
    x, w = np.zeros(layer.data_shape, np.float32), np.ones(layer.filter_shape, np.float32)
    graph, _ = build(layer, x, w, shape_source="input")
    source = ird.infer(graph)
    assert accepted(source, ird.lower(source, "gemm").graph) == {"every size": 1}


@pytest.mark.parametrize("kind", [np.int64, np.int32])
@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
def test_pads_of_another_mode_at_run_time_differ(mode: str, kind: Any) -> None:
    graphs = []
    for pad_mode in ("constant", mode):
        g = Graph()
        x = parameter(g, (1, 2, 5, 5), np.float32, "x")
        pads = [parameter(g, (4,), kind, name) for name in ("begin", "end")]
        pad = g.add(REGISTRY["Pad", "opset12"](pad_mode=pad_mode), [x, *pads], name="pad")
        w = constant(g, weights(np.random.default_rng(1), (2, 2, 2, 2)), "w")
        op = REGISTRY["ConvolutionBackpropData", "opset1"](strides=(2, 2))
        result(g, Value(g.add(op, [Value(pad.id), w], name="up").id))
        graphs.append(ird.infer(g))
    low = ird.lower(graphs[1], "phases").graph
    assert ird.check_certificate(graphs[0], low).passed == (mode == "constant")


@pytest.mark.parametrize("form", FORMS)
def test_files_are_proved_against_files(form: str, tmp_path: Path) -> None:
    source = chain()
    ird.write(source, tmp_path / "a.xml")
    ird.write(ird.lower(source, form).graph, tmp_path / "b.xml")
    a, b = (ird.infer(ird.read(tmp_path / f"{n}.xml")) for n in "ab")
    accepted(a, b)
    assert len(ird.certify(a, b)) == 2
    assert ird.check_certificate(a, b).others == 1  # relu


def test_the_spelling_in_standard_operations_is_followed() -> None:
    source = chain()
    spelled = inferred(standardize(ird.lower(source).graph))
    assert not list(spelled.nodes("ZeroInsertion"))
    accepted(source, spelled)


@pytest.mark.parametrize(("name", "every"), [("i32", True), ("i8", False)])
def test_no_proof_for_all_sizes_where_a_size_may_wrap(name: str, every: bool) -> None:
    layer = Layer(1, (4,), 1, 1, 1, (2,), (3,), (1,), (0,), (0,), (0,))
    w = np.ones(layer.filter_shape, np.float32)
    graph, _ = build(layer, np.zeros(layer.data_shape, np.float32), w, data_shape=(None, 1, None))
    source = ird.infer(graph)
    lowered = standardize(ird.lower(source).graph)
    (size,) = lowered.nodes("Multiply")
    convert = REGISTRY["Convert", "opset1"]
    small = lowered.add(convert(ELEMENT_TYPES[name]), [Value(size.id)], name="small")
    wide = lowered.add(convert(ELEMENT_TYPES["i64"]), [Value(small.id)], name="wide")
    for user, port in lowered.users(Value(size.id)):
        if user != small.id:
            lowered.set_input(user, port, Value(wide.id))
    (made,) = ird.certify(source, ird.infer(lowered))
    assert (made.holds_for or "").startswith("every size") is every


def test_names_are_no_keys() -> None:
    """Frontends repeat names, and lowered layers are renamed to what others are called already."""
    deconvolution = REGISTRY["ConvolutionBackpropData", "opset1"](strides=(2, 2))
    ops = deconvolution, REGISTRY["Convolution", "opset1"](), deconvolution
    filters = (weights(np.random.default_rng(i), (2, 2, 3, 2)) for i in range(3))
    steps = [(f"a/{op.type}", op, {"w": w}) for op, w in zip(ops, filters, strict=True)]
    source = ird.infer(sequential((1, 2, 3, 4), *steps))
    for form in ALWAYS:
        low = ird.lower(source, form).graph
        for node in low.nodes():
            node.origins = ()  # as a file has it
        accepted(source, low)


def test_what_is_not_rewritten_must_be_the_same() -> None:
    source = chain()
    low = ird.lower(source).graph
    (relu,) = low.nodes("ReLU")
    low.replace_op(relu.id, REGISTRY["Tanh", "opset1"]())
    report = ird.check_certificate(source, low)
    assert not report.passed
    assert report.problems == ('ReLU "relu" is a Tanh in the lowered model',)
    first, second = report.layers
    assert first.passed
    assert second.reason == 'what it reads is not proved to be equal, because of "relu"'


def test_a_certificate_survives_json_and_is_not_believed() -> None:
    source = chain()
    low = ird.lower(source).graph
    made = ird.certify(source, low)
    texts = [json.dumps(c.to_dict()) for c in made]
    back = [Certificate.from_dict(json.loads(t)) for t in texts]
    assert tuple(back) == made.all
    (said,) = made[0].source.values()
    assert said["attributes"]["pads_begin"] == "1,0"
    assert said["constants"]["1"]["shape"] == [3, 3, 3, 2]
    assert made[0].maps[0].startswith("axis 0: 2*i + 1*k = o + 1, 0 <= i < 4, 0 <= o < 8")
    assert [n["type"] for n in made[0].nodes] == ["ZeroInsertion", "Pad", "Convolution"]
    report = ird.check_certificate(source, ird.lower(source, "phases").graph, back)
    another = 'the certificate states another form: "zero-insertion" instead of "phases"'
    assert [r.reason for r in report.layers] == [another] * 2
    strides = {**said, "attributes": {**said["attributes"], "strides": "1,1"}}
    lie = replace(back[0], source={"first": strides})
    assert not ird.check_certificate(source, low, [lie, back[1]]).passed
    assert not ird.check_certificate(source, low, back[:1]).passed
    assert not ird.check_certificate(source, low, [*back, replace(back[0], layer="third")]).passed
    with pytest.raises(ValueError, match="no irdeconv/certificate/2"):
        Certificate.from_dict({"schema": "x"})
    with pytest.raises(ValueError, match="incomplete"):
        Certificate.from_dict({"schema": "irdeconv/certificate/2"})
    with pytest.raises(ValueError, match="make it anew"):
        Certificate.from_dict({"schema": "irdeconv/certificate/1"})


# Faults ------------------------------------------------------------------------------------------


def mutable() -> list[tuple[str, Graph, Graph]]:
    """Layers of which every fault in `mutants` changes the result, in all forms."""
    found = []
    rng = np.random.default_rng(SEED)
    layers = {
        "2d": Layer(2, (4, 5), None, 2, 3, (3, 4), (2, 3), (1, 1), (1, 1), (1, 0), (0, 0)),
        "groups": Layer(1, (4, 5), 2, 3, 2, (3, 3), (2, 2), (1, 1), (1, 1), (0, 1), (1, 0)),
        "dilated": Layer(1, (6,), None, 2, 2, (3,), (2,), (3,), (1,), (2,), (0,)),
        "3d": Layer(
            1, (3, 3, 4), None, 2, 2, (2, 3, 2), (2, 2, 2), ONE, (0, 1, 0), (0, 1, 0), (0, 0, 0)
        ),
        "square": Layer(1, (3, 4), None, 2, 3, (2, 2), (2, 2), (1, 1), (0, 1), (1, 0), (0, 0)),
    }  # fmt: skip
    for name, layer in layers.items():
        x = np.zeros(layer.data_shape, np.float32)
        graph, _ = build(layer, x, weights(rng, layer.filter_shape))
        source = ird.infer(graph)
        for form in FORMS if name == "square" else ALWAYS:
            found.append((f"{name} {form}", source, ird.lower(source, form).graph))
    for name in ("Clip", "LeakyRelu"):
        source = ird.infer(_nhwc(rng, name))
        found.append((f"nhwc {name}", source, ird.lower(source).graph))
    return found


def _nhwc(rng: np.random.Generator, activation: str) -> Graph:
    op: Any = REGISTRY["ConvTranspose", "com.ms.internal.nhwc_11"](
        strides=(2, 2),
        pads=(1, 0, 0, 1),
        activation=activation,
        activation_params=(0.1,) if activation == "LeakyRelu" else (-2.0, 6.0),
    )
    more = {"w": weights(rng, (3, 2, 3, 3)), "b": weights(rng, (2,))}
    return sequential((1, 4, 5, 3), ("deconv", op, more))


@pytest.mark.parametrize("step", parts(1, (60, 1)))
def test_every_mutant_fails_the_proof_and_the_probe(step: int) -> None:
    """The first of each kind and every sixtieth by default, all of them with `-m slow`."""
    kinds: Counter[str] = Counter()
    for name, source, lowered in mutable():
        accepted(source, lowered)
        for i, (text, mutant) in enumerate(mutants(lowered)):
            kinds[kind := " ".join(text.split(" ")[:2])] += 1
            if i % step == 0 or kinds[kind] == 1:
                sides = side_of(source), side_of(mutant)  # which may not fit together
                assert not checked(*sides).passed, (name, text)
                assert not probed(*sides).passed, (name, text)
    assert kinds.total() >= 200
    assert {k.split(":")[0] for k in kinds} == {
        "pads", "filters", "insertions", "interleavings", "tails", "shuffled",
    }  # fmt: skip
    for fault in ("flip", "channel", "groups", "weight", "dilation"):
        assert kinds[f"filters: {fault}"] > 1
    for fault in ("phases", "DepthToSpace", "Transpose"):
        assert kinds[f"interleavings: {fault}"] > 1


# Cost --------------------------------------------------------------------------------------------


def source_of(layer: Layer, seed: int = 3) -> Graph:
    """A layer with random weights, without data."""
    w = weights(np.random.default_rng(seed), layer.filter_shape)
    return ird.infer(build(layer, np.zeros(1, np.float32), w, data_shape=layer.data_shape)[0])


def test_large_layers_are_proved_without_computing_them() -> None:
    """10 GMAC and more: the proof looks at every axis on its own."""
    layer = Layer(1, (512, 640), None, 64, 32, (4, 4), (2, 2), (1, 1), (1, 1), (1, 1), (0, 0))
    assert layer.products > 10**10
    source = source_of(layer)
    for form in ALWAYS:
        report = ird.check_certificate(source, ird.lower(source, form).graph)
        assert report.passed, str(report)


def test_models_that_are_not_compared_are_not_proved() -> None:
    graph = ird.read("ir_samples/openvino/segmentation_head.xml")
    made = ird.certify(ird.lower(graph), graph)
    assert not made
    assert "swapped" in made.verdict
    assert "not proved: the first model has no deconvolution" in str(made)
    assert proof_code(made) == 1


# The probe's arithmetic, held against Python's unbounded integers and plain loops.


P = 2_147_483_629  # the largest prime below 2**31 - 1
NUMBERS = PrimeField(P)


def elements(rng: np.random.Generator, *shape: int) -> Any:
    """Random elements; a fifth of them the largest one."""
    return np.where(rng.random(shape) < 0.2, P - 1, rng.integers(0, P, shape))


def exact(array: Any) -> Any:
    """The same as unbounded integers."""
    return array.astype(object)


def test_primes() -> None:
    sieve = np.ones(5000, bool)
    sieve[:2] = False
    for n in range(2, 71):
        sieve[2 * n :: n] = False
    assert [n for n in range(2, 5000) if is_prime(n)] == np.flatnonzero(sieve).tolist()
    assert is_prime(P)
    assert is_prime(2**31 - 1)
    # Composites that pass some probabilistic tests, and the square of a prime.
    assert not any(map(is_prime, (2047, 1373653, 25326001, 1122004669, 46337**2, 2**31 - 3)))
    drawn = {random_prime(np.random.default_rng(seed)) for seed in range(20)}
    assert len(drawn) == 20
    assert all(LEAST_PRIME <= n < PRIMES_END and is_prime(n) for n in drawn)


@pytest.mark.parametrize("terms", [0, 1, 7, TERMS, TERMS + 1, 2 * TERMS + 3])
def test_matmul_is_exact(terms: int) -> None:
    rng = np.random.default_rng(terms)
    for a, b in (
        (elements(rng, 2, 3, terms), elements(rng, 2, terms, 4)),
        (np.full((1, terms), P - 1), np.full((terms, 1), P - 1)),
    ):
        want = (exact(a) @ exact(b)) % P if terms else np.zeros((*a.shape[:-1], b.shape[-1]))
        assert np.array_equal(np.broadcast_to(NUMBERS.matmul(a, b), want.shape), want)
    assert PRIMES_END.bit_length() - 1 <= 3 * PART


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_residues_of_real_numbers(dtype: Any) -> None:
    limits = np.finfo(dtype)
    plain = np.random.default_rng(1).standard_normal(50).astype(dtype)
    some = [0, -0.0, 1, -1, limits.max, limits.tiny, limits.smallest_subnormal, 1 + limits.eps]
    values = np.concatenate([np.array(some, dtype), plain])
    for value, found in zip(values, NUMBERS.of(values), strict=True):
        fraction = Fraction(float(value))
        assert int(found) == fraction.numerator * pow(fraction.denominator, -1, P) % P
    with pytest.raises(Unproved, match="not finite"):
        NUMBERS.of(np.array([np.inf], dtype))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.uint64, np.bool_])
def test_residues_of_integers(dtype: Any) -> None:
    ends = [0, 1] if dtype is np.bool_ else [np.iinfo(dtype).min, np.iinfo(dtype).max, 0, 7]
    values = np.array(ends, dtype)
    assert NUMBERS.of(values).tolist() == [int(v) % P for v in values]


def test_products_and_inverses() -> None:
    rng = np.random.default_rng(0)
    a, b = elements(rng, 50), np.maximum(elements(rng, 50), 1)
    assert NUMBERS.times(a, b).tolist() == [int(x) * int(y) % P for x, y in zip(a, b, strict=True)]
    assert (NUMBERS.times(NUMBERS.inverse(b), b) == 1).all()
    with pytest.raises(Unproved, match="divided by 0"):
        NUMBERS.inverse(np.array([3, 0]))


def test_factors_of_outer_products() -> None:
    rng = np.random.default_rng(5)
    vectors = [elements(rng, n) for n in (2, 1, 3, 4)]
    x = NUMBERS.outer(vectors)
    a, b, c, d = map(exact, vectors)
    want = a[:, None, None, None] * b[:, None, None] * c[:, None] * d % P
    assert np.array_equal(x, want)
    x[0] = 0  # as a crop or an inserted zero leaves it
    found = NUMBERS.factors(x)
    assert found is not None
    assert np.array_equal(NUMBERS.outer(found), x)
    x[1, 0, 2, 3] = (x[1, 0, 2, 3] + 1) % P
    assert NUMBERS.factors(x) is None
    zeros = NUMBERS.factors(np.zeros((2, 3), np.int64))
    assert zeros is not None
    assert not NUMBERS.outer(zeros).any()


SHAPES = [((2, 6, 5), (3,), 2), ((1, 4, 3, 5), (2, 3), 1), ((2, 2, 2, 3, 2), (2, 1, 3), 2)]


@pytest.mark.parametrize("split", [True, False])
@pytest.mark.parametrize(("shape", "kernel", "groups"), SHAPES)
def test_sums_are_those_of_the_definitions(
    shape: tuple[int, ...], kernel: tuple[int, ...], groups: int, split: bool
) -> None:
    """Data that are an outer product are summed axis by axis, others tap by tap."""
    rng = np.random.default_rng(len(shape))
    inner, outputs, axes = shape[1] // groups, 3, len(kernel)
    vectors = [elements(rng, n) for n in shape]
    x = NUMBERS.outer(vectors) if split else elements(rng, *shape)
    assert (NUMBERS.factors(x) is not None) == split
    w = elements(rng, groups, outputs, inner, *kernel)
    strides, dilations, begin = (2, 3, 1)[:axes], (1, 2, 1)[:axes], (1, -1, 0)[:axes]
    steps = list(zip(strides, dilations, strict=True))
    ends = [(*step, b) for step, b in zip(steps, begin, strict=True)]
    for forward, outs in ((False, (9, 11, 4)), (True, (2, 3, 4))):
        sizes = outs[:axes]
        rows = [
            Relation(*((1, s, d, b) if forward else (s, 1, -d, -b)), i, k, o)
            for (s, d, b), i, k, o in zip(ends, shape[2:], kernel, sizes, strict=True)
        ]
        got = NUMBERS.contract(x, w, [along.readings() for along in rows])
        want = np.zeros((shape[0], groups * outputs, *sizes), object)
        for n, g, m, c in itertools.product(*map(range, (shape[0], groups, outputs, inner))):
            for s in itertools.product(*map(range, shape[2:])):
                for k in itertools.product(*map(range, kernel)):
                    value = int(x[(n, g * inner + c, *s)]) * int(w[(g, m, c, *k)])
                    if not forward:
                        reached = [
                            [i * t + j * d - b] for i, j, (t, d, b) in zip(s, k, ends, strict=True)
                        ]
                    else:  # all o with o*S + k*D - begin == s
                        reached = [
                            [o for o in range(size) if o * t + j * d - b == i]
                            for size, i, j, (t, d, b) in zip(sizes, s, k, ends, strict=True)
                        ]
                    for at in itertools.product(*reached):
                        if all(0 <= o < size for o, size in zip(at, sizes, strict=True)):
                            want[(n, g * outputs + m, *at)] += value
        assert np.array_equal(got, want % P)


def simple() -> Graph:
    layer = Layer(1, (4, 5), None, 2, 3, (3, 3), (2, 2), (1, 1), (1, 1), (1, 1), (0, 0))
    return source_of(layer, 1)


def test_the_seed_is_fresh_and_can_be_repeated() -> None:
    source = simple()
    low = ird.lower(source).graph
    assert len({ird.check_certificate(source, low, probe=True).seed for _ in range(3)}) == 3
    again = ird.check_certificate(source, low, seed=11, probe=True)
    assert again.seed == 11
    assert again == ird.check_certificate(source, low, seed=11, probe=True)
    assert 0 < (again.error_probability or 1) < 1e-12


def test_weights_that_differ_by_a_prime_are_told_apart() -> None:
    """A known prime could hide a difference, so it is drawn like the data."""
    source = simple()
    low = ird.lower(source).graph
    for p in (2**31 - 1, P):
        other = low.copy()
        (convolution,) = other.nodes("Convolution")
        weight = other.inputs_of(convolution.id)[1]
        from support.mutants import array_of, with_input

        array = np.array(array_of(other, weight), np.float64)
        array.reshape(-1)[4] += p
        report = probed(side_of(source), side_of(with_input(other, convolution, 1, array)))
        assert report.differs, str(report)


def test_what_is_too_large_is_not_probed(monkeypatch: Patch) -> None:
    source = simple()
    low = ird.lower(source).graph
    monkeypatch.setattr(probe, "LARGEST_PROBED", 100)
    report = ird.check_certificate(source, low, probe=True)
    assert not report.passed
    assert not report.differs
    assert "the most that the probe holds" in (report.layers[0].reason or "")
    monkeypatch.undo()
    with ird.Limits(work=1 << 17).applied():
        report = work.counted(probed)(side_of(source), side_of(low))
    assert "the limit of work, 131,072 units" in (report.layers[0].reason or "")


def test_layers_of_many_products_are_probed_by_their_axes(monkeypatch: Patch) -> None:
    """A side sums K taps of the last axis for each output, the layer C K K / (S S): 64 times more.

    Two sides make a thirty-second; the other axis and the channels cost less than that.
    """
    count, plain = 0, PrimeField.matmul

    def counted(self: PrimeField, a: Any, b: Any) -> Any:
        nonlocal count
        count += a.size * b.shape[-1]
        return plain(self, a, b)

    monkeypatch.setattr(PrimeField, "matmul", counted)
    monkeypatch.setattr("irdeconv.verify.probe.RANDOM_POINTS", 1)
    layer = Layer(1, (64, 80), None, 64, 16, (4, 4), (2, 2), (1, 1), (1, 1), (1, 1), (0, 0))
    assert layer.products > 5 * 10**7
    source = source_of(layer)
    for form in ("zero-insertion", "phases", "stacked"):
        low = ird.lower(source, form).graph
        count = 0
        report = ird.check_certificate(source, low, probe=True)
        assert report.passed, str(report)
        assert 0 < count < layer.products / 10


def test_weights_of_unknown_bodies_are_compared_and_hashed_once(monkeypatch: Patch) -> None:
    inner = ib.net([ib.const(0, "c", (1,), 0, 4), ib.result(1, "r", (1,))], (0, 0, 1, 0))
    body = "<body>" + inner.partition(">")[2].replace("</net>", "</body>")
    ends = {"inputs": [ib.port(0)], "outputs": [ib.port(1)]}
    rows = [ib.layer(i, f"m{i}", "Mystery", version="vendor", body=body, **ends) for i in (1, 2)]
    layers = [ib.parameter(0, "x", ()), *rows, ib.result(3, "y", ())]
    text = ib.net(layers, (0, 0, 1, 0), (1, 1, 2, 0), (2, 1, 3, 0)).encode()
    one, other = (ird.read(text, bytes([i, 0, 0, 0])) for i in (1, 2))
    assert not ird.check_certificate(one, one.copy()).problems
    assert ird.check_certificate(one, other).problems
    monkeypatch.setattr(hashlib, "blake2b", None)  # both are known
    assert ird.check_certificate(one, other).problems
