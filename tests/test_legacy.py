"""IR of version 2 to 7: numbers of single layers, whole files, what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.cli.main import main
from irdeconv.formats.legacy_layer import RULES
from irdeconv.formats.legacy_rules import REFUSED
from support.legacy import Case, Layer, text
from support.legacy_cases import CASES


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_layer_gives_what_is_worked_by_hand(case: Case) -> None:
    graph = case.graph()
    found = ird.run(graph, case.feeds())
    assert len(found) == len(case.want)
    for array, want in zip(found.values(), case.want, strict=True):
        assert array.shape == np.shape(want)
        np.testing.assert_allclose(array, want, rtol=1e-5, atol=1e-6)


def lstm(x: np.ndarray, h: np.ndarray, c: np.ndarray, w: np.ndarray, b: np.ndarray) -> list:
    """One step by its definition; the gates are f, i, c, o."""
    gates = np.concatenate([x, h], 1) @ w.T + b
    f, i, g, o = np.split(gates, 4, 1)
    f, i, o = (1 / (1 + np.exp(-v)) for v in (f, i, o))
    c = f * c + i * np.tanh(g)
    return [o * np.tanh(c), c]


def gru(x: np.ndarray, h: np.ndarray, w: np.ndarray, b: np.ndarray) -> list:
    """One step by its definition; the gates are z, r, h."""
    size = x.shape[1]
    wx, wh = np.split(w[:, :size], 3), np.split(w[:, size:], 3)
    bz, br, bh = np.split(b, 3)
    z = 1 / (1 + np.exp(-(x @ wx[0].T + h @ wh[0].T + bz)))
    r = 1 / (1 + np.exp(-(x @ wx[1].T + h @ wh[1].T + br)))
    return [(1 - z) * np.tanh(x @ wx[2].T + (r * h) @ wh[2].T + bh) + z * h]


def cells() -> list[Case]:
    rng = np.random.default_rng(1)
    x, h, c = (rng.standard_normal(s).astype(np.float32) for s in ((2, 3), (2, 4), (2, 4)))

    def case(kind: str, gates: int, states: list, step: object) -> Case:
        w = rng.standard_normal((gates * 4, 7)).astype(np.float32)
        b = rng.standard_normal(gates * 4).astype(np.float32)
        want = step(x, *states, w, b)  # type: ignore[operator]
        blobs = {"weights": w, "biases": b}
        return Case(kind, kind, [x, *states], want, {"hidden_size": 4}, blobs)

    def rnn(x: np.ndarray, h: np.ndarray, w: np.ndarray, b: np.ndarray) -> list:
        return [np.tanh(np.concatenate([x, h], 1) @ w.T + b)]

    return [
        case("LSTMCell", 4, [h, c], lstm),
        case("GRUCell", 3, [h], gru),
        case("RNNCell", 1, [h], rnn),
    ]


@pytest.mark.parametrize("case", cells(), ids=str)
def test_a_cell_keeps_weights_of_data_and_state_in_one_blob(case: Case) -> None:
    found = list(ird.run(case.graph(), case.feeds()).values())
    for array, want in zip(found, case.want, strict=True):
        np.testing.assert_allclose(array, want, rtol=1e-5, atol=1e-6)


@pytest.mark.oracles
@pytest.mark.parametrize("case", [*CASES, *cells()], ids=str)
def test_openvino_computes_the_same_of_what_is_written(case: Case, tmp_path: Path) -> None:
    graph = case.graph()
    ird.write(graph, tmp_path / "new.xml")
    core = pytest.importorskip("openvino").Core()
    hint = {"INFERENCE_PRECISION_HINT": "f32"}
    model = core.compile_model(core.read_model(tmp_path / "new.xml"), "CPU", hint)
    given, mine = model(case.feeds()), ird.run(graph, case.feeds())
    for k, array in enumerate(mine.values()):
        np.testing.assert_allclose(array, given[k], rtol=1e-5, atol=1e-6)


# Whole files ---------------------------------------------------------------------------------


def network(**changes: object) -> list[Layer]:
    """Return input x, a convolution c of it, and the softmax p of that."""
    layers = {
        "x": Layer("Input", "x", [(1, 1, 1, 2)]),
        "c": Layer(
            "Convolution",
            "c",
            [(1, 2, 1, 2)],
            ["x"],
            {"kernel": "1,1", "output": 2},
            {"weights": np.float32([2, 4]), "biases": np.float32([0, 1])},
        ),
        "p": Layer("SoftMax", "p", [(1, 2, 1, 2)], ["c"], {"axis": 1}),
    }
    for name, change in changes.items():
        layers[name] = replace(layers[name], **change)  # type: ignore[arg-type]
    return list(layers.values())


def refused(layers: list[Layer], weights: bytes | None = None, **how: object) -> ird.IrdeconvError:
    xml, made = text(layers, **how)  # type: ignore[arg-type]
    with pytest.raises(ird.IrdeconvError) as caught:
        ird.read(xml, made if weights is None else weights)
    return caught.value


def codes(error: ird.IrdeconvError) -> list[str]:
    return [d.code for d in error.diagnostics]


def test_every_verb_reads_a_file_with_the_bin_beside_it(tmp_path: Path) -> None:
    xml, weights = text(network())
    (tmp_path / "old.xml").write_bytes(xml)
    (tmp_path / "old.bin").write_bytes(weights)
    graph = ird.read(tmp_path / "old.xml")
    assert graph.inputs == ["x"]
    assert graph.outputs == ["p"]
    assert ird.validate(tmp_path / "old.xml") == []
    assert ird.infer(tmp_path / "old.xml", shapes={"x": [3, 1, 1, 2]}).outputs == ["p"]
    found = ird.run(graph, {"x": np.float32([[[[0, 1]]]])})["p"]
    odds = np.exp(np.float32([0 - 1, 2 - 5]))
    np.testing.assert_allclose(found[0, 0, 0], odds / (1 + odds), rtol=1e-5)


def test_what_lower_writes_of_a_file_is_proved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = {"kernel": "1,3", "output": 1, "strides": "1,2"}
    up = Layer(
        "Deconvolution", "up", [(1, 1, 1, 5)], ["x"], data, {"weights": np.float32([1, 2, 3])}
    )
    xml, weights = text([Layer("Input", "x", [(1, 1, 1, 2)]), up])
    old, new = tmp_path / "old.xml", tmp_path / "new.xml"
    old.write_bytes(xml)
    old.with_suffix(".bin").write_bytes(weights)
    assert main(["lower", str(old), "-o", str(new), "--certify"]) == 0
    assert "proved" in capsys.readouterr().out
    assert ird.check_certificate(old, new)


def test_layers_in_any_order_and_a_reshape_of_the_input() -> None:
    xml, weights = text(network()[::-1])
    graph = ird.convert(xml, weights, shapes={"x": [5, 1, 1, 2]})  # type: ignore[arg-type]
    assert str(graph.spec(graph.inputs_of(graph.results[0].id)[0])) == "f32[5,2,1,2]"


def test_another_batch_goes_through_what_flattens() -> None:
    np.ones(4, np.float32)
    layers = [
        Layer("Input", "x", [(1, 2, 1, 2)]),
        Layer("Flatten", "f", [(1, 4)], ["x"], {"axis": 1}),
        Layer(
            "FullyConnected", "d", [(1, 1)], ["x"], {"out-size": 1}, {"weights": np.ones(4, "f")}
        ),
        Layer("Concat", "y", [(1, 5)], ["f", "d"]),
    ]
    graph = ird.infer(ird.read(*text(layers)), {"x": [3, 2, 1, 2]})
    assert str(graph.results[0].spec()) == "f32[3,5]"


def test_half_precision_is_stored_and_f32_computed() -> None:
    half = {"weights": np.float16([2, 4]), "biases": np.float16([0, 1])}
    layers = [replace(n, precision="FP16") for n in network(c={"blobs": half})]
    xml, weights = text(layers, version=3)
    graph = ird.read(xml, weights)
    assert str(graph.parameters[0].spec()) == "f32[1,1,1,2]"
    stored = [n for n in graph.nodes("Const") if n.spec().dtype.name == "f16"]
    assert len(stored) == 2
    assert len(list(graph.nodes("Convert"))) == 2
    whole, values = text(network())
    feed = {"x": np.float32([[[[0.25, -1]]]])}
    np.testing.assert_array_equal(
        ird.run(graph, feed)["p"], ird.run(ird.read(whole, values), feed)["p"]
    )


def test_every_tensor_that_nothing_reads_is_an_output() -> None:
    layers = [
        Layer("Input", "x", [(1, 3)]),
        Layer("Slice", "s", [(1, 1), (1, 2)], ["x"], {"axis": 1}),
        Layer("ReLU", "r", [(1, 1)], ["s:0"]),
    ]
    assert ird.read(*text(layers)).outputs == ["s.1", "r"]


def test_mean_values_and_mean_images_are_subtracted() -> None:
    layers = [Layer("Input", "x", [(1, 2, 1, 2)]), Layer("ReLU", "y", [(1, 2, 1, 2)], ["x"])]
    feed = {"x": np.float32([[[[5, 6]], [[7, 8]]]])}
    values = (
        '<pre-process><channel id="0"><mean value="5"/></channel>'
        '<channel id="1"><mean value="6.5"/></channel></pre-process>'
    )
    found = ird.run(ird.read(*text(layers, extra=values)), feed)["y"]
    np.testing.assert_array_equal(found.reshape(-1), [0, 1, 0.5, 1.5])
    images = (
        '<pre-process mean-precision="FP32" reference-layer-name="x">'
        '<channel><mean offset="0" size="8"/></channel><channel><mean offset="8" size="8"/>'
        "</channel></pre-process>"
    )
    xml, _ = text(layers, extra=images)
    graph = ird.read(xml, np.float32([1, 2, 3, 9]).tobytes())
    np.testing.assert_array_equal(ird.run(graph, feed)["y"].reshape(-1), [4, 4, 4, 0])


def test_a_scale_of_the_input_is_refused() -> None:
    scaled = '<pre-process><channel id="0"><scale value="2"/></channel></pre-process>'
    assert "scale" in str(refused(network(), extra=scaled))


def test_random_blobs_depend_on_the_seed() -> None:
    xml, _ = text(network())
    first, again, other = (
        ird.run(ird.convert(xml, "random", seed=s), {"x": np.float32([[[[1, 2]]]])})["p"]
        for s in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_without_weights_the_structure_is_read() -> None:
    xml, _ = text(network())
    assert len(list(ird.read(xml, weights=False).nodes("Convolution"))) == 1


# What is wrong -------------------------------------------------------------------------------


def test_all_layers_that_are_not_covered_are_named_at_once() -> None:
    layers = network(p={"kind": "SimplerNMS"})
    layers += [Layer("Memory", "m", [(1,)]), Layer("MyLayer", "z", [(1, 1, 1, 2)], ["x"])]
    error = refused(layers)
    assert isinstance(error, ird.UnsupportedError)
    assert codes(error) == ["E502"] * 3
    said = str(error)
    for name in ('SimplerNMS "p"', 'Memory "m"', 'MyLayer "z"', "Proposal", "state"):
        assert name in said


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"outputs": [(1, 2, 1, 3)]}, "output 0 is declared"),
        ({"data": {"kernel": "1,1", "output": 3}}, "its weights have 8 bytes"),
        ({"data": {"kernel": "1", "output": 2}}, "kernel has 1 values"),
        ({"data": {"kernel": "1,x", "output": 2}}, "is no number"),
        ({"data": {"output": 2}}, "kernel-y is missing"),
        ({"data": {"kernel": "1,1", "output": 2, "group": 3}}, "3 groups"),
        ({"data": {"kernel": "1,1", "output": 2, "auto_pad": "some"}}, "auto_pad"),
        ({"blobs": {"biases": np.float32([1, 2])}}, "it has no weights"),
        ({"precision": "Q78"}, "Q78"),
    ],
)
def test_what_does_not_fit_is_said_with_its_numbers(change: dict, said: str) -> None:
    error = refused(network(c=change))
    assert said in str(error)
    assert error.diagnostics[0].location.position == (5, 1)


def test_a_layer_whose_second_output_does_not_fit_leaves_nothing_behind() -> None:
    layers = [
        Layer("Input", "x", [(1, 3)]),
        Layer("Crop", "a", [(1, 1)], ["x"], {"axis": 1, "offset": 0, "dim": 1}),
        Layer("TopK", "t", [(1, 1), (1, 2)], ["x", "k"], {"axis": 1}),
        Layer("Const", "k", [(1,)], blobs={"custom": np.int32([1])}, precision="I32"),
    ]
    assert codes(refused(layers)) == ["E502"]


def test_a_blob_outside_the_bin_and_a_missing_bin(tmp_path: Path) -> None:
    assert codes(refused(network(), b"1234")) == ["E121"]
    (tmp_path / "old.xml").write_bytes(text(network())[0])
    with pytest.raises(FileNotFoundError, match=r"old\.bin is missing"):
        ird.read(tmp_path / "old.xml")


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ('<edge from-layer="1"', '<edge from-layer="9"', "E202"),
        ('<edge from-layer="1" from-port="1" to-layer="2" to-port="0"/>', "", "E204"),
        ('<layer id="2"', '<layer id="1"', "E200"),
        ("<edges>", "<egdes>", "E101"),
        ("<net ", "<!DOCTYPE net><net ", "E102"),
        ("<edges>", '<edges xmlns="urn:x">', "E103"),
        ("<edges>", '<edges u:x="1">', "E103"),
        ("<dim>2</dim>", "<dim>two</dim>", "E502"),
        (
            'from-layer="0" from-port="0" to-layer="1"',
            'from-layer="2" from-port="1" to-layer="1"',
            "E205",
        ),
        ("<layers>", "<layers><leyer/>", None),
        ('offset="0"', 'offset="-1"', "E502"),
    ],
)
def test_a_damaged_file_is_described(old: str, new: str, code: str | None) -> None:
    xml, weights = text(network())
    damaged = xml.replace(old.encode(), new.encode())
    assert damaged != xml
    found = ird.validate(damaged, weights)
    assert (code or "W102") in {d.code for d in found}


def test_what_is_not_read_is_said() -> None:
    layers = network(p={"data": {"axis": 1, "colour": "red", "PrimitivesPriority": "cpu"}})
    xml, weights = text(layers, extra="<statistics><layer><name>c</name></layer></statistics>")
    found = ird.validate(xml, weights)
    assert [d.code for d in found] == ["W100", "W100"]
    assert "colour" in str(found)
    assert "8-bit" in str(found)


def test_an_attribute_that_today_means_the_opposite_is_not_taken_over() -> None:
    case = next(c for c in CASES if c.name == "strided slice: 0 in a mask means not")
    (node,) = case.graph().nodes("StridedSlice")
    assert (node.op.begin_mask, node.op.end_mask) == ((0,), (1,))


def test_the_page_lists_the_layers() -> None:
    page = Path("docs/legacy.md").read_text(encoding="utf-8")
    listed = page.partition("covered -->")[2].partition("<!--")[0]
    names = {word.strip(" .\n").lower() for word in listed.split(",")}
    assert names == {*RULES, "activation"}
    refused = page.partition("with the reason: ")[2].partition(". ")[0]
    assert {n.strip().lower() for n in refused.split(",")} == set(REFUSED)


@pytest.mark.parametrize("kind", ["BatchNormalization", "ScaleShift", "PReLU", "Convolution"])
def test_a_size_that_only_the_file_claims_is_not_allocated(kind: str) -> None:
    size = 10**12
    data = {"epsilon": 1, "kernel": "1,1", "output": size, "group": size}
    blobs = {"weights": np.float32([1, 2]), "biases": np.float32([1, 2])}
    layers = [
        Layer("Input", "x", [(1, size, 1, 1)]),
        Layer(kind, "y", [(1, size, 1, 1)], ["x"], data, blobs),
    ]
    assert codes(refused(layers))[0] == "E502"
