"""Deconvolutions proved for all sizes, by symbolic index maps."""

from pathlib import Path

import numpy as np
import pytest
from lxml import etree

import irdeconv as ird
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.op import REGISTRY
from irdeconv.ir.spec import Interval
from irdeconv.proof import symbolic
from irdeconv.proof.model import Fact, Obligation, Port, Proof, Unproved
from irdeconv.proof.reader import read, shape_of
from irdeconv.rewrite.forms import FORMS
from support.ir_edit import unmark
from support.layers import Layer, begun, build, constant, numbers, parameter, result
from support.proof_layers import random_model, write_source


def prove(a: Path, b: Path) -> Proof:
    """Prove the first outputs of two files equal; inputs are twins by their names."""
    source, lowered = read(a), read(b)
    places = {source.layers[i].name: i for i in source.parameters}
    twins = {Port(i): Port(places[lowered.layers[i].name]) for i in lowered.parameters}

    def fact(port: Port) -> Fact:
        said = source.of(port).attributes
        return Fact(said["element_type"], shape_of(said["shape"]))

    ends = (m.layers[m.results[0]].inputs[0] for m in (source, lowered))
    return symbolic.prove(Obligation(source, lowered, *ends, twins, fact))


def written(tmp_path: Path, seed: int, form: str) -> tuple[Path, Path] | None:
    """Write a random layer and its lowering; None where the form does not apply."""
    model = random_model(np.random.default_rng([77, seed]))
    if any(n.name == "front" for n in model.graph.nodes()):
        return None  # pairing has to find what stands in front
    low = ird.lower(model.graph, form)
    if any(r.form != form for r in low.report):
        return None
    write_source(model.graph, tmp_path / "a.xml")
    ird.write(low.graph, tmp_path / "b.xml")
    return tmp_path / "a.xml", tmp_path / "b.xml"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(12))
def test_what_the_lowering_writes_is_proved(tmp_path: Path, seed: int, form: str) -> None:
    files = written(tmp_path, seed, form)
    if files is not None:
        proof = prove(*files)
        assert proof.every
        assert proof.rounding == 0


def dynamic(tmp_path: Path, form: str, least: int = 1) -> tuple[Path, Path]:
    """Write a deconvolution of (1, 2, ?, 4..9) by 3x2, strides 2 and 3; and its lowering."""
    rng = np.random.default_rng(5)
    graph, x = begun((1, 2, Interval(least, None), Interval(4, 9)))
    w = constant(graph, numbers(rng, (2, 3, 3, 2), np.float32), "w")
    op = REGISTRY["ConvolutionBackpropData", "opset1"]((2, 3), (1, 0), (0, -1), (1, 2))
    result(graph, Value(graph.add(op, [x, w], name="deconv").id))
    graph = ird.infer(graph)
    write_source(graph, tmp_path / "a.xml")
    low = ird.lower(graph, form)
    assert all(r.form == form for r in low.report)
    ird.write(low.graph, tmp_path / "b.xml")
    return tmp_path / "a.xml", tmp_path / "b.xml"


def test_index_maps_are_printed(tmp_path: Path) -> None:
    """By hand: 2i + k = o + 1 along H; output o reads row t - 1 + o of rows with zeros between."""
    proof = prove(*dynamic(tmp_path, "zero-insertion"))
    assert (len(proof.view.blocks), {a.radix for a in proof.view.axes}) == (1, {1})
    assert proof.maps[0] == (
        "axis 0: 2*i + 1*k = o + 1, 0 <= i < x[2], 0 <= o < 2*x[2]: taps 0 as 2, 1 as 1, 2 as 0"
    )
    assert proof.sizes == "every size (up to 16,777,216 per axis)"


@pytest.mark.parametrize(("least", "says"), [(1, "up to"), (0, "from 1 up to")])
def test_a_size_of_0_that_would_keep_an_axis(tmp_path: Path, least: int, says: str) -> None:
    a, b = dynamic(tmp_path, "phases", least)
    assert prove(a, b).sizes == "every size (up to 16,777,216 per axis)"
    b.write_text(b.read_text().replace('special_zero="false"', 'special_zero="true"'))
    assert prove(a, b).sizes == f"every size ({says} 16,777,216 per axis)"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("form", ["zero-insertion", "phases", "stacked"])
def test_every_changed_number_is_seen(tmp_path: Path, form: str) -> None:
    """Each integer of each constant, one more and one less; what is accepted computes the same."""
    a, b = dynamic(tmp_path, form)
    assert prove(a, b).every
    unmark(b)
    data = [np.arange(12.0 * n, dtype=np.float32).reshape(1, 2, n, 6) for n in (1, 2, 5)]
    wanted = [next(iter(ird.run(a, {"x": x}).values())) for x in data]
    weights = bytearray(b.with_suffix(".bin").read_bytes())
    numbers_of = [
        int(d.get("offset")) + 8 * i
        for d in etree.parse(b).getroot().iter("data")
        if d.get("element_type") == "i64"
        for i in range(int(d.get("size")) // 8)
    ]
    assert len(numbers_of) > 8
    refused = 0
    for at in sorted(set(numbers_of)):
        for change in (-1, 1):
            changed = weights.copy()
            number = int.from_bytes(changed[at : at + 8], "little", signed=True) + change
            changed[at : at + 8] = number.to_bytes(8, "little", signed=True)
            b.with_suffix(".bin").write_bytes(changed)
            try:
                prove(a, b)
            except Unproved:
                refused += 1
                continue
            plan = ird.compile(b)
            for x, want in zip(data, wanted, strict=True):
                assert np.array_equal(next(iter(plan.run({"x": x}).values())), want)
    assert refused > len(set(numbers_of))


@pytest.mark.parametrize("corner", [0, 1, np.inf, np.nan])
def test_a_tap_that_reads_only_zeros_is_finite(tmp_path: Path, corner: float) -> None:
    """One element, a kernel of 3x3 and pads of 1: only the tap in the middle reads it."""
    for name, kernel in (
        ("a", np.full((1, 1, 1, 1), 2)),
        ("b", np.diag([corner, 2, 0])[None, None]),
    ):
        graph, x = begun((1, 1, 1, 1))
        w = constant(graph, kernel.astype(np.float32), "w")
        kind, pads = ("Convolution", (1, 1)) if name == "b" else ("ConvolutionBackpropData", (0, 0))
        op = REGISTRY[kind, "opset1"]((1, 1), pads, pads, (1, 1))
        result(graph, Value(graph.add(op, [x, w], name="y").id))
        write_source(ird.infer(graph), tmp_path / f"{name}.xml")
    if np.isfinite(corner):
        assert prove(tmp_path / "a.xml", tmp_path / "b.xml").every
        return
    with pytest.raises(Unproved, match='Convolution "y" has a weight that is not finite'):
        prove(tmp_path / "a.xml", tmp_path / "b.xml")


def test_the_limit_of_sizes_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = dynamic(tmp_path, "zero-insertion")
    monkeypatch.setattr(symbolic, "LARGEST_SIZES", (2**20, 2**16))
    assert "for every size (up to 1,048,576 per axis)\n" in str(ird.check_certificate(a, b))


def test_vectors_that_do_not_broadcast_are_refused(tmp_path: Path) -> None:
    """auto_broadcast none of [4] and [1]: OpenVINO refuses it, so the proof has to."""
    graph, _ = build(
        Layer(
            1, (3, 4), 2, 2, 3, (3, 2), (2, 3), (1, 1), (1, 0), (0, 1), (1, 0), "same_upper", (7, 9)
        ),
        np.zeros((1, 4, 3, 4), np.float32),
        np.ones((2, 2, 3, 3, 2), np.float32),
        data_shape=(1, 4, None, None),
    )
    write_source(ird.infer(graph), tmp_path / "a.xml")
    ird.write(ird.lower(graph, "zero-insertion").graph, tmp_path / "b.xml")
    assert prove(tmp_path / "a.xml", tmp_path / "b.xml").every
    text = (tmp_path / "b.xml").read_text()
    at = text.index('type="Maximum"')
    changed = text[:at] + text[at:].replace('"numpy"', '"none"', 1)
    (tmp_path / "b.xml").write_text(changed)
    with pytest.raises(Unproved, match="Maximum"):
        prove(tmp_path / "a.xml", tmp_path / "b.xml")


def computed(filter_of: str, bias_of: str) -> Graph:
    """Return ConvTranspose(x, w, b) of three channels by one tap, filter and bias read from either.

    `w` is [1, 3, 1], `b` is [3]: element i of the one has the place of element i of the other.
    """
    graph, x = begun((1, 1, 4))
    given = {
        "w": parameter(graph, (1, 3, 1), np.float32, "w"),
        "b": parameter(graph, (3,), np.float32, "b"),
    }
    inputs = [x]
    for name, wanted, shape in ((filter_of, "w", (1, 3, 1)), (bias_of, "b", (3,))):
        value = given[name]
        if name != wanted:
            target = constant(graph, np.array(shape), f"shape of {wanted}")
            reshape = REGISTRY["Reshape", "opset1"](False)
            value = Value(graph.add(reshape, [value, target], name=f"as {wanted}").id)
        inputs.append(value)
    op = REGISTRY["ConvTranspose", "onnx_opset11"](strides=(2,))
    result(graph, Value(graph.add(op, inputs, name="deconv").id))
    return ird.infer(graph)


@pytest.mark.parametrize("form", FORMS)
def test_a_computed_filter_and_a_computed_bias_are_no_one(tmp_path: Path, form: str) -> None:
    write_source(computed("w", "b"), tmp_path / "a.xml")
    for filter_of, bias_of in (("w", "b"), ("w", "w"), ("b", "b"), ("b", "w")):
        ird.write(ird.lower(computed(filter_of, bias_of), form).graph, tmp_path / "b.xml")
        if (filter_of, bias_of) == ("w", "b"):
            assert prove(tmp_path / "a.xml", tmp_path / "b.xml").every
            continue
        with pytest.raises(Unproved):
            prove(tmp_path / "a.xml", tmp_path / "b.xml")


@pytest.mark.parametrize("semantics", ["runtime", "document"])
@pytest.mark.parametrize("auto_pad", ["explicit", "same_upper", "same_lower"])
def test_crops_that_an_input_tells_are_proved_for_every_size(auto_pad: str, semantics: str) -> None:
    """Which of both halves is cropped at the begin decides where the rows of a product end up."""
    graph, x = begun((1, 2, 4, 3))
    w = constant(graph, numbers(np.random.default_rng(6), (2, 3, 2, 3), np.float32), "w")
    shape = parameter(graph, (2,), np.int64, "output_shape")
    said = {"auto_pad": auto_pad, "semantics": semantics}
    op = REGISTRY["ConvolutionBackpropData", "opset1"](strides=(2, 3), **said)
    result(graph, Value(graph.add(op, [x, w, shape], name="deconv").id))
    graph = ird.infer(graph)
    for form in ("zero-insertion", "gemm"):
        low = ird.lower(graph, form)
        assert [r.form for r in low.report] == [form]
        (proved,) = ird.certify(graph, low.graph)
        assert (proved.holds_for or "").startswith("every size"), form


def test_regions_without_a_deconvolution_are_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their sizes could split into a thousand cases, for a proof that cannot come."""
    graph, x = begun((1, 2, 4))
    result(graph, Value(graph.add(REGISTRY["ReLU", "opset1"](), [x], name="relu").id))
    write_source(ird.infer(graph), tmp_path / "a.xml")

    def followed(*_: object) -> None:
        raise AssertionError("a layer is evaluated")

    monkeypatch.setattr(symbolic.RegionWalk, "step", followed)
    with pytest.raises(Unproved, match="no deconvolution is on either side"):
        prove(tmp_path / "a.xml", tmp_path / "a.xml")
