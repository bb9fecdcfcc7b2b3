"""Files whose ports and marks say something else than their layers compute; shapes from constants.

OpenVINO ignores what ports declare and every mark, so whatever reads such a file must take it for
the model that it is: the same values, or a diagnostic. For shapes that follow from constants,
inference has OpenVINO's or none, and proofs rest on no other (`support.facts` draws expressions).
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.base.errors import InferenceError, UnsupportedError
from irdeconv.ir.graph import Graph
from irdeconv.ir.spec import is_static
from irdeconv.ops.activation import ReLU
from irdeconv.ops.dialect_openvino import ConvolutionBackpropData
from irdeconv.rewrite.infer_specs import infer_specs
from support import irbuild as ib
from support.commands import Capture
from support.facts import SHAPE, alike, contradicts, drawn, fact_pair, truth
from support.layers import sequential
from support.live.runtime import Runtime
from support.raising_graphs import numbers
from support.rows import parts
from support.runtime_truth import outputs
from support.verdicts import ACCEPTED, CRASHED, REFUSED, answer

RNG = np.random.default_rng(31)
W = numbers(RNG, 2, 3, 3, 3)
X = numbers(RNG, 1, 2, 8, 2)
MARK = "irdeconv_zero_insertion"


def original(shape: Any) -> Graph:
    """A deconvolution of stride 2 behind a ReLU."""
    up = ConvolutionBackpropData(strides=(2, 2))
    return sequential(shape, ("r", ReLU()), ("deconv", up, {"w": W}))


@pytest.fixture
def false_dims(tmp_path: Path) -> Path:
    """Lowered for [1, 2, 2, 8] and declared so; only the Parameter says [1, 2, 8, 2].

    The Pad in front of the marked Reshape has as many elements at either shape.
    """
    path = tmp_path / "false.xml"
    ird.write(ird.lower(original((1, 2, 2, 8))), path)
    text = path.read_text()
    assert 'shape="1,2,2,8"' in text
    assert MARK in text
    path.write_text(text.replace('shape="1,2,2,8"', 'shape="1,2,8,2"'))
    return path


def by_hand(x: Any) -> Any:
    """What the file computes: the elements are regrouped as rows of 8, then zeros are inserted."""
    wide = np.zeros((4, 2, 8, 2))
    wide[:, 0, :, 0] = np.maximum(x, 0).reshape(4, 8)
    data = np.pad(wide.reshape(1, 2, 4, 16), ((0, 0), (0, 0), (2, 1), (2, 1)))
    views = np.lib.stride_tricks.sliding_window_view(data, (3, 3), (2, 3))
    return np.einsum("nchwij,cmij->nmhw", views, W[..., ::-1, ::-1])


def shown_by_openvino(path: Path, x: Any) -> Any:
    pytest.importorskip("openvino")
    return outputs(path, [x])[0]


def written(path: Path) -> Graph:
    again = path.with_name("again.xml")
    ird.write(path, again)
    return ird.read(again)


VERBS: dict[str, Callable[[Path], Any]] = {
    "read": ird.read,
    "write": written,
    "infer": ird.infer,
    "lower": lambda p: ird.lower(p).graph,
    "raise": lambda p: ird.raise_(p).graph,
    "inspect": lambda p: ird.inspect(p).graph,
    "extract": lambda p: ird.extract(p, to="y"),
    "rename": lambda p: ird.rename(p, {"deconv": "other"}),
    "simplify": lambda p: ird.simplify(p).graph,
    "compile": ird.compile,
    "dump": lambda p: ird.parse(ird.dump(p)),
}


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_reads_what_the_layers_compute(verb: str, false_dims: Path) -> None:
    made = VERBS[verb](false_dims)
    got = made.run([X]) if verb == "compile" else ird.run(made, [X])
    assert np.array_equal(next(iter(got.values())), by_hand(X))
    assert verb == "compile" or not list(getattr(made, "graph", made).nodes("ZeroInsertion"))


@pytest.mark.parametrize("options", [{}, {"exact": True}, {"fuse": False}])
def test_running(options: Any, false_dims: Path) -> None:
    assert np.array_equal(next(iter(ird.run(false_dims, [X], **options).values())), by_hand(X))


def test_validation_tells_of_the_dims(false_dims: Path) -> None:
    (found,) = ird.validate(false_dims)
    assert (found.code, found.layer) == ("W202", "x")
    assert found.notes[-1].message == "1 layer behind it differs, too"


def test_nothing_is_raised_nor_the_same(false_dims: Path) -> None:
    whole = original((1, 2, 8, 2))
    assert not [r for r in ird.raise_(false_dims).report if r.pattern]
    assert not ird.compare(whole, false_dims, [X])
    assert not ird.check_certificate(whole, false_dims)


def test_a_proof_tells_of_the_dims(tmp_path: Path, false_dims: Path, capsys: Capture) -> None:
    """Of either file; they change no verdict, and are not looked for at other shapes."""
    from irdeconv.cli.main import main

    whole = tmp_path / "whole.xml"
    ird.write(original((1, 2, 8, 2)), whole)
    told = {d.message for d in ird.validate(false_dims) if d.code == "W202"}
    report = ird.check_certificate(whole, false_dims)
    assert {d.message for d in report.warnings} == told
    assert {d.message for d in ird.check_certificate(false_dims, whole).warnings} == told
    assert [d["code"] for d in report.to_dict()["warnings"]] == ["W202"] * len(told)
    assert not ird.check_certificate(whole, false_dims, sizes={"x": (1, 2, 8, 2)}).warnings
    assert not ird.check_certificate(ird.read(whole), ird.read(false_dims)).warnings
    assert main(["check-certificate", str(whole), str(false_dims)]) == 1
    assert capsys.readouterr().err.count("warning[W202]") == len(told)


def test_a_shape_that_is_asked_for_later(tmp_path: Path) -> None:
    """A file of fixed sizes is no other model where its inputs are reshaped."""
    path = tmp_path / "fixed.xml"
    ird.write(ird.lower(original((1, 2, 2, 8))), path)
    assert list(ird.infer(path).nodes("ZeroInsertion"))
    regrouped = ird.infer(path, {"x": [1, 2, 8, 2]})
    assert np.array_equal(ird.run(regrouped, [X])["y"], by_hand(X))
    graph = ird.read(path)
    for model in (path, graph):
        with pytest.raises(InferenceError):
            ird.infer(model, {"x": [1, 2, 3, 8]})
    with pytest.raises(InferenceError, match=r"Reshape to \[1,2,4,16\]"):
        ird.infer(graph, {"x": [1, 2, 8, 2]})
    assert {d.code for d in ird.validate(graph, shapes={"x": [1, 2, 8, 2]})} == {"E300"}
    assert ird.infer(graph, {"x": ["0..4", 2, 2, 8]}).results[0].spec().shape is not None


def test_open_sizes_stay_open(tmp_path: Path) -> None:
    path = tmp_path / "open.xml"
    ird.write(ird.lower(original((1, 2, None, None))), path)
    for sizes in ((2, 8), (5, 1)):
        assert list(ird.infer(path, {"x": [1, 2, *sizes]}).nodes("ZeroInsertion"))
        x = numbers(RNG, 1, 2, *sizes)
        (want,) = ird.run(original((1, 2, *sizes)), [x]).values()
        assert np.array_equal(ird.run(ird.infer(ird.read(path), {"x": x.shape}), [x])["y"], want)


@pytest.mark.parametrize(
    "strides", ["0,2", "2", "2,2,2", "2,3", ",", "2,,2", "99999999999999999999,2", "-2,2", ""]
)
def test_marks_that_say_something_else(strides: str, tmp_path: Path) -> None:
    path = tmp_path / "m.xml"
    ird.write(ird.lower(original((1, 2, 8, 2))), path)
    (want,) = ird.run(path, [X]).values()
    path.write_text(
        re.sub(rf'({MARK}" version="0" strides=)"2,2"', rf'\1"{strides}"', path.read_text())
    )
    graph = ird.read(path)
    assert not list(graph.nodes("ZeroInsertion"))
    assert np.array_equal(ird.run(graph, [X])["y"], want)


def chain(*layers: str) -> bytes:
    """A file of layers that each read the one before."""
    edges = ((i, min(i, 1), i + 1, 0) for i in range(len(layers) - 1))
    return ib.net(layers, *edges).encode()


def test_simplify_folds_nothing_that_an_unknown_operation_declares() -> None:
    unknown = {"version": "vendor", "inputs": [ib.port(0, (1, 2, 8, 2))]}
    size = {"version": "opset3", "inputs": [ib.port(0, (1, 2, 2, 8))]}
    model = chain(
        ib.parameter(0, "x", (1, 2, 8, 2)),
        ib.layer(1, "m", "Mystery", outputs=[ib.port(1, (1, 2, 2, 8))], **unknown),
        ib.layer(2, "s", "ShapeOf", 'output_type="i64"', outputs=[ib.port(1, (4,), "I64")], **size),
        ib.layer(3, "y", "Result", inputs=[ib.port(0, (4,), "I64")]),
    )
    simple = ird.simplify(model).graph
    assert list(simple.nodes("ShapeOf"))
    assert str(simple.find("m")[0].spec()) == "f32[1,2,2,8]"  # written as it was declared


def declared_convert() -> bytes:
    """Integers through u8, whose port declares i64."""
    data = {"inputs": [ib.port(0, (4,), "I64")], "outputs": [ib.port(1, (4,), "I64")]}
    return chain(
        ib.parameter(0, "x", (4,), "i64"),
        ib.layer(1, "narrow", "Convert", 'destination_type="u8"', **data),
        ib.layer(2, "wide", "Convert", 'destination_type="i64"', **data),
        ib.layer(3, "y", "Result", inputs=[ib.port(0, (4,), "I64")]),
    )


@pytest.mark.parametrize("verb", [ird.infer, lambda m: ird.simplify(m).graph, ird.read])
def test_a_declared_element_type_is_not_believed(verb: Callable[[bytes], Graph]) -> None:
    model = declared_convert()
    assert [(d.code, d.layer) for d in ird.validate(model)] == [("W203", "narrow")]
    x = np.array([3, 255, 256, 777], np.int64)
    assert next(iter(ird.run(verb(model), [x]).values())).tolist() == [3, 255, 0, 9]


@pytest.mark.oracles
def test_openvino_computes_the_same(false_dims: Path, tmp_path: Path) -> None:
    assert np.array_equal(shown_by_openvino(false_dims, X), by_hand(X))
    assert ird.compare(false_dims, "openvino", [X])
    path = tmp_path / "c.xml"
    path.write_bytes(declared_convert())
    x = np.array([3, 255, 256, 777], np.int64)
    assert shown_by_openvino(path, x).tolist() == [3, 255, 0, 9]


DATA = (np.arange(72, dtype=np.float32) % 13 + 1).reshape(SHAPE)
VECTOR = np.arange(12, dtype=np.float32)
# OpenVINO has other numbers for these than NumPy, which decide a shape.
OTHERWISE = {
    "quotients": "i64 -7 Divide:2|i32 -9 Divide:4|i64 -1 Divide:2|i64 7 Divide:-2|i32 -99 Divide:7",
    "conversions": (
        "f64 300.2 Convert:i8 Convert:i16|f64 -1000.5 Convert:u8 Convert:i16|f64 200 Convert:i8|"
        "f64 1e300 Convert:i32|f64 inf Convert:i8"
    ),
    "functions of integers": "i64 1 Exp|i32 4 Exp|i64 4 Exp|i32 5 Log|i64 13 Log",
    "overflow": (
        "i16 30000 Multiply:3|u16 3 Subtract:5|i16 -30000 Subtract:9000|u16 60000 Multiply:2|"
        "i16 200 Multiply:200"
    ),
    "rounding": (
        "f32 0.3 Tanh Multiply:16777216|f32 0.9 Tanh Multiply:16777216|"
        "f32 0.7 Sigmoid Multiply:16777216|f32 0.2 Sigmoid Multiply:16777216|"
        "f32 -0.8 Exp Multiply:16777216"
    ),
}


@pytest.fixture(scope="module")
def runtime() -> Iterator[Runtime]:
    with Runtime() as made:
        yield made


def _judge(pair: Any, folder: Path, runtime: Runtime) -> tuple[str, str]:
    """Return what OpenVINO and irdeconv say of a pair."""
    paths = folder / "a.xml", folder / "b.xml"
    a, b = (truth(g, p, runtime, DATA) for g, p in zip(pair, paths, strict=True))
    # Nothing is claimed of an original that does not run.
    real = "same" if alike(a, b) else "differ" if a.kind == "ran" else "none"
    return real, answer(*paths)[0]


def _shapes(numbers: range, folder: Path, runtime: Runtime) -> Counter[bool]:
    seen: Counter[bool] = Counter()
    for number in numbers:
        found = drawn(11, number)
        if found is not None:
            shape = found[0].spec(found[1]).shape
            theirs = truth(found[0], folder / "m.xml", runtime, VECTOR)
            assert not contradicts(shape, theirs), number
            seen[is_static(shape)] += 1
    return seen


def _pairs(numbers: range, folder: Path, runtime: Runtime) -> Counter[tuple[str, str]]:
    pairs = {number: fact_pair(12, number) for number in numbers}
    judged = {n: _judge(pair, folder, runtime) for n, pair in pairs.items() if pair is not None}
    wrong = [n for n, v in judged.items() if v == ("differ", ACCEPTED) or v[1] == CRASHED]
    assert not wrong
    return Counter(judged.values())


@pytest.mark.oracles
def test_inferred_shapes_are_openvinos(tmp_path: Path, runtime: Runtime) -> None:
    assert min(_shapes(range(25), tmp_path, runtime).values()) > 3


@pytest.mark.oracles
def test_no_pair_that_differs_is_accepted(tmp_path: Path, runtime: Runtime) -> None:
    assert _pairs(range(8), tmp_path, runtime)["same", ACCEPTED] > 0


@pytest.mark.oracles
@pytest.mark.slow
@pytest.mark.parametrize("sweep", [_shapes, _pairs])
def test_two_thousand(sweep: Any, tmp_path: Path, runtime: Runtime) -> None:
    sweep(range(2_000), tmp_path, runtime)


@pytest.mark.oracles
@pytest.mark.parametrize("most", parts(1, (2, 5)))
@pytest.mark.parametrize("cause", OTHERWISE)
def test_numbers_that_openvino_has_otherwise(
    cause: str, most: int, tmp_path: Path, runtime: Runtime
) -> None:
    """No proof decides by them, and no run, but those that irdeconv folds as OpenVINO does."""
    rows = OTHERWISE[cause].split("|")
    for number, row in enumerate(rows[:most]):
        pair = fact_pair(13, number, row)
        assert pair is not None
        assert _judge(pair, tmp_path, runtime) == ("differ", REFUSED), row
        if cause == "quotients":
            theirs = truth(pair[0], tmp_path / "a.xml", runtime, DATA)
            assert np.array_equal(ird.run(pair[0], {"n0": DATA})["y"], theirs.arrays[0])
            continue
        with pytest.raises(UnsupportedError, match="E305"):
            ird.run(pair[0], {"n0": DATA})
        assert "W304" in {d.code for d in infer_specs(pair[0].copy(), remarks=True)}
    assert len(rows) == 5
