"""Files of version 2 to 7, their bodies, and version 10."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.formats.legacy import REFUSED
from irdeconv.formats.legacy_layer import RULES
from irdeconv.ir.dtypes import ELEMENT_TYPES
from irdeconv.ir.graph import Value
from irdeconv.ops.activation import ReLU
from irdeconv.ops.basic import Parameter
from support import irbuild as ib
from support.commands import answer
from support.legacy import CASES, Case, Layer, text
from support.rows import each_row, parts, tables
from support.runtime_truth import outputs

TABLES = tables(__file__)

# IR of version 2 to 7: numbers of single layers, whole files, what is refused.


@each_row("case", CASES)
def test_a_layer_gives_what_is_worked_by_hand(case: Case) -> None:
    found = ird.run(case.graph(), case.feeds())
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


@each_row("case", cells())
def test_a_cell_keeps_weights_of_data_and_state_in_one_blob(case: Case) -> None:
    found = list(ird.run(case.graph(), case.feeds()).values())
    for array, want in zip(found, case.want, strict=True):
        np.testing.assert_allclose(array, want, rtol=1e-5, atol=1e-6)


KINDS = list({case.kind: case for case in [*CASES, *cells()]}.values())


@pytest.mark.oracles
@pytest.mark.parametrize("cases", parts(1, (KINDS[::2], [*CASES, *KINDS])), ids=["some", "all"])
def test_openvino_computes_the_same_of_what_is_written(cases: list[Case], tmp_path: Path) -> None:
    for case in cases:
        graph = case.graph()
        ird.write(graph, tmp_path / "new.xml")
        given, mine = outputs(tmp_path / "new.xml", case.feeds()), ird.run(graph, case.feeds())
        for k, array in enumerate(mine.values()):
            np.testing.assert_allclose(array, given[k], rtol=1e-5, atol=1e-6, err_msg=case.name)


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


def test_what_lower_writes_of_a_file_is_proved(tmp_path: Path) -> None:
    data = {"kernel": "1,3", "output": 1, "strides": "1,2"}
    up = Layer(
        "Deconvolution", "up", [(1, 1, 1, 5)], ["x"], data, {"weights": np.float32([1, 2, 3])}
    )
    xml, weights = text([Layer("Input", "x", [(1, 1, 1, 2)]), up])
    old, new = tmp_path / "old.xml", tmp_path / "new.xml"
    old.write_bytes(xml)
    old.with_suffix(".bin").write_bytes(weights)
    assert "proved" in answer("lower", old, "-o", new, "--certify").out
    assert ird.check_certificate(old, new)


def test_layers_in_any_order_and_a_reshape_of_the_input() -> None:
    xml, weights = text(network()[::-1])
    graph = ird.convert(xml, weights, shapes={"x": [5, 1, 1, 2]})  # type: ignore[arg-type]
    assert str(graph.spec(graph.inputs_of(graph.results[0].id)[0])) == "f32[5,2,1,2]"


def test_another_batch_goes_through_what_flattens() -> None:
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
    assert len([n for n in graph.nodes("Const") if n.spec().dtype.name == "f16"]) == 2
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


@each_row(
    ("change", "said"),
    [
        ({"outputs": [(1, 2, 1, 3)]}, "output 0 is declared"),
        ({"data": {"kernel": "1,1", "output": 3}}, "its weights have 8 bytes"),
        ({"data": {"kernel": "1", "output": 2}}, "kernel has 1 value for"),
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


@each_row(
    ("old", "new", "code"),
    [*TABLES["a_damaged_file_is_described"], ("<layers>", "<layers><leyer/>", None)],
)
def test_a_damaged_file_is_described(old: str, new: str, code: str | None) -> None:
    xml, weights = text(network())
    damaged = xml.replace(old.encode(), new.encode())
    assert damaged != xml
    assert (code or "W102") in {d.code for d in ird.validate(damaged, weights)}


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


@each_row("kind", ["BatchNormalization", "ScaleShift", "PReLU", "Convolution"])
def test_a_size_that_only_the_file_claims_is_not_allocated(kind: str) -> None:
    size = 10**12
    data = {"epsilon": 1, "kernel": "1,1", "output": size, "group": size}
    blobs = {"weights": np.float32([1, 2]), "biases": np.float32([1, 2])}
    layers = [
        Layer("Input", "x", [(1, size, 1, 1)]),
        Layer(kind, "y", [(1, size, 1, 1)], ["x"], data, blobs),
    ]
    assert codes(refused(layers))[0] == "E502"


# TensorIterator of IR 5 to 7: its body has open ports, and weights in the same `.bin`.

RNG = np.random.default_rng(3)
W = RNG.standard_normal((8, 4)).astype(np.float32)
B = RNG.standard_normal(8).astype(np.float32)


def port(number: int, *dims: int) -> str:
    return f'<port id="{number}">' + "".join(f"<dim>{d}</dim>" for d in dims) + "</port>"


BODY = f"""<body><layers>
<layer id="0" name="squeeze" type="Reshape" precision="FP32"><data dim="1,2"/>
<input>{port(0, 1, 1, 2)}</input><output>{port(1, 1, 2)}</output></layer>
<layer id="1" name="cell" type="LSTMCell" precision="FP32"><data hidden_size="2"/>
<input>{port(0, 1, 2)}{port(1, 1, 2)}{port(2, 1, 2)}</input>
<output>{port(5, 1, 2)}{port(6, 1, 2)}</output>
<blobs><weights offset="0" size="128"/><biases offset="128" size="32"/></blobs></layer>
<layer id="2" name="unsqueeze" type="Reshape" precision="FP32"><data dim="1,1,2"/>
<input>{port(0, 1, 2)}</input><output>{port(1, 1, 1, 2)}</output></layer>
</layers><edges>
<edge from-layer="0" from-port="1" to-layer="1" to-port="0"/>
<edge from-layer="1" from-port="5" to-layer="2" to-port="0"/>
</edges></body>"""
MODEL = f"""<?xml version="1.0"?>
<net name="lstm" version="5" batch="1"><layers>
<layer id="0" name="x" type="Input" precision="FP32"><output>{port(0, 1, 3, 2)}</output></layer>
<layer id="1" name="h" type="Input" precision="FP32"><output>{port(0, 1, 2)}</output></layer>
<layer id="2" name="c" type="Input" precision="FP32"><output>{port(0, 1, 2)}</output></layer>
<layer id="3" name="ti" type="TensorIterator" precision="FP32">
<input>{port(0, 1, 3, 2)}{port(1, 1, 2)}{port(2, 1, 2)}</input>
<output>{port(3, 1, 3, 2)}{port(4, 1, 2)}</output>
<port_map>
<input external_port_id="0" internal_layer_id="0" internal_port_id="0" axis="1"/>
<input external_port_id="1" internal_layer_id="1" internal_port_id="1"/>
<input external_port_id="2" internal_layer_id="1" internal_port_id="2"/>
<output external_port_id="3" internal_layer_id="2" internal_port_id="1" axis="1"/>
<output external_port_id="4" internal_layer_id="1" internal_port_id="6"/>
</port_map>
<back_edges>
<edge from-layer="1" from-port="5" to-layer="1" to-port="1"/>
<edge from-layer="1" from-port="6" to-layer="1" to-port="2"/>
</back_edges>
{BODY}</layer>
</layers><edges>
<edge from-layer="0" from-port="0" to-layer="3" to-port="0"/>
<edge from-layer="1" from-port="0" to-layer="3" to-port="1"/>
<edge from-layer="2" from-port="0" to-layer="3" to-port="2"/>
</edges></net>"""
WEIGHTS = W.tobytes() + B.tobytes()
FEED = {
    n: RNG.standard_normal(s).astype(np.float32)
    for n, s in {"x": (1, 3, 2), "h": (1, 2), "c": (1, 2)}.items()
}


def steps(order: slice = slice(None)) -> tuple[np.ndarray, np.ndarray]:
    """The hidden states of all steps and the last cell state, by definition."""
    h, c, out = FEED["h"], FEED["c"], []
    for x in FEED["x"][0][order]:
        h, c = lstm(x[None], h, c, W, B)
        out.append(h)
    return np.stack(out, 1)[:, order], c


def test_a_body_with_open_ports_is_read() -> None:
    found = ird.run(ird.read(MODEL.encode(), WEIGHTS), FEED)
    for name, want in zip(("ti.0", "ti.1"), steps(), strict=True):
        np.testing.assert_allclose(found[name], want, rtol=1e-5, atol=1e-6)


def test_a_negative_stride_runs_backwards() -> None:
    reverse = MODEL.replace('axis="1"', 'axis="1" start="-1" end="0" stride="-1"')
    found = ird.run(ird.read(reverse.encode(), WEIGHTS), FEED)
    for name, want in zip(("ti.0", "ti.1"), steps(slice(None, None, -1)), strict=True):
        np.testing.assert_allclose(found[name], want, rtol=1e-5, atol=1e-6)


@each_row(
    ("old", "new", "said"),
    [*TABLES["maps_and_layers_that_do_not_fit_are_named"], (BODY, "", "0 bodies")],
)
def test_maps_and_layers_that_do_not_fit_are_named(old: str, new: str, said: str) -> None:
    text = MODEL.replace(old, new)
    assert text != MODEL
    with pytest.raises(ird.IrdeconvError) as caught:
        ird.read(text.encode(), WEIGHTS)
    assert said in str(caught.value)


@pytest.mark.oracles
def test_openvino_runs_what_is_written(tmp_path: Path) -> None:
    ird.write(ird.read(MODEL.encode(), WEIGHTS), tmp_path / "new.xml")
    found = outputs(tmp_path / "new.xml", FEED)
    for number, want in enumerate(steps()):
        np.testing.assert_allclose(found[number], want, rtol=1e-5, atol=1e-6)


# Version 10: f16 inputs are f32 outside, outputs f32 or i32, as OpenVINO shows them.

# What is inside, what an input and an output are outside.
ENDS = TABLES["ends"]


def net(dtype: str, version: int) -> bytes:
    """A Concat of the input with itself, seen by two Results."""
    kind, data = ELEMENT_TYPES[dtype].precision, f'element_type="{dtype}" shape="3"'
    both = [ib.port(0, (3,), kind), ib.port(1, (3,), kind)]
    layers = [
        ib.layer(0, "x", "Parameter", data, outputs=[ib.port(0, (3,), kind)]),
        ib.layer(1, "c", "Concat", 'axis="0"', inputs=both, outputs=[ib.port(2, (6,), kind)]),
        *(ib.layer(i, f"r{i}", "Result", inputs=[ib.port(0, (6,), kind)]) for i in (2, 3)),
    ]
    ends = (0, 0, 1, 0), (0, 0, 1, 1), (1, 2, 2, 0), (1, 2, 3, 0)
    return ib.net(layers, *ends, name="n", version=version).encode()


def shown(graph: ird.Graph) -> tuple[str, str]:
    """The element types at the ends."""
    inferred = ird.infer(graph)
    (x,), (y, z) = inferred.parameters, inferred.results
    assert inferred.input_specs(y.id) == inferred.input_specs(z.id)
    return str(x.spec().dtype), str(inferred.input_specs(y.id)[0].dtype)


@each_row("dtype", list(ENDS))
def test_ends(dtype: str) -> None:
    graph = ird.read(net(dtype, 10), b"")
    assert shown(graph) == ENDS[dtype]
    assert graph.inputs == ["x"]
    assert graph.outputs == ["c", "c.1"]
    assert ird.validate(net(dtype, 10), b"") == []
    assert shown(ird.read(net(dtype, 11), b"")) == (dtype, dtype)


@each_row("dtype", ["f16", "i64"])
def test_written_ends_stay(dtype: str, tmp_path: Path) -> None:
    graph = ird.read(net(dtype, 10), b"")
    ird.write(graph, tmp_path / "m.xml")
    again = ird.read(tmp_path / "m.xml")
    assert shown(again) == ENDS[dtype]
    assert len(again) == len(graph)


def test_written_in_version_10_nothing_is_added(tmp_path: Path) -> None:
    """The Converts are what version 10 says anyway: the file has the layers that were read."""
    graph = ird.read(net("f16", 10), b"")
    ird.write(graph, tmp_path / "m.xml")
    text = (tmp_path / "m.xml").read_text()
    assert text.count("<layer ") == 4
    assert "Convert" not in text
    assert 'element_type="f16"' in text
    graph.info.ir_version = 11
    ird.write(graph, tmp_path / "m.xml")
    assert (tmp_path / "m.xml").read_text().count('type="Convert"') == 2


def test_a_convert_that_stands_at_no_end_is_written(tmp_path: Path) -> None:
    graph = ird.read(net("f16", 10), b"")
    (x,), (y, _) = graph.parameters, graph.results
    inner, outer = graph.nodes("Convert")
    relu = graph.add(ReLU(), graph.inputs_of(y.id), name="relu")
    graph.set_input(y.id, 0, Value(relu.id))
    graph.replace_op(x.id, Parameter((3,), ELEMENT_TYPES["i32"]))
    x.declared = ()
    ird.write(ird.infer(graph), tmp_path / "m.xml")
    assert {n.name for n in ird.read(tmp_path / "m.xml").nodes("Convert")} == {
        inner.name,
        outer.name,
    }


def test_values_pass_through_the_inner_type() -> None:
    x = np.array([1.0002, 70000, -3], np.float32)
    with np.errstate(over="ignore"):
        want = np.tile(x.astype(np.float16), 2).astype(np.float32)
    out = ird.run(ird.read(net("f16", 10), b""), [x])["c"]
    np.testing.assert_array_equal(out, want, strict=True)


@pytest.mark.oracles
@each_row("dtype", list(ENDS))
def test_openvino_shows_the_same(dtype: str) -> None:
    ov = pytest.importorskip("openvino")
    model = ov.Core().read_model(net(dtype, 10), b"")
    graph = ird.read(net(dtype, 10), b"")
    kinds = tuple(e.element_type.to_dtype() for e in (model.inputs[0], model.outputs[0]))
    assert kinds == tuple(ELEMENT_TYPES[name].container for name in shown(graph))
    x = np.array([0, 1, 3]).astype(ELEMENT_TYPES[ENDS[dtype][0]].container)
    theirs = ov.Core().compile_model(model, "CPU")([x])[0]
    np.testing.assert_array_equal(ird.run(graph, [x])["c"], theirs, strict=True)


def deconvolution(dtype: str, *, last: bool, names: str) -> tuple[bytes, bytes]:
    """A deconvolution whose name tells its type, and a ReLU behind it or none."""
    up, kind = "ConvolutionBackpropData", ELEMENT_TYPES[dtype].precision
    x, w, y = (1, 4, 5), (4, 3, 3), (1, 3, 11)
    weights = np.arange(36).astype(ELEMENT_TYPES[dtype].container).tobytes()
    said = f'element_type="{dtype}" shape="{{}}"'
    strides = 'strides="2" pads_begin="0" pads_end="0" dilations="1"'
    blob = f'{said.format("4,3,3")} offset="0" size="{len(weights)}"'
    both, seen = [ib.port(0, x, kind), ib.port(1, w, kind)], [ib.port(0, y, kind)]
    layers = [
        ib.layer(0, "x", "Parameter", said.format("1,4,5"), outputs=both[:1]),
        ib.layer(1, "w", "Const", blob, outputs=[ib.port(0, w, kind)]),
        ib.layer(2, f"up/{up}", up, strides, inputs=both, outputs=[ib.port(2, y, kind, names)]),
        ib.layer(3, "relu", "ReLU", inputs=seen, outputs=[ib.port(1, y, kind)]),
        ib.layer(4, "out", "Result", inputs=seen),
    ]
    edges = [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0), (3, 1, 4, 0)]
    if last:
        layers, edges = layers[:3] + layers[4:], [*edges[:2], (2, 2, 4, 0)]
    return ib.net(layers, *edges, name="n", version=10).encode(), weights


@pytest.mark.parametrize("names", ["", ' names="tensor"'])
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_what_is_lowered_is_proved(dtype: str, last: bool, names: str, tmp_path: Path) -> None:
    """An output is called as its layer, and the types inside are those of the file."""
    for suffix, data in zip(
        (".xml", ".bin"), deconvolution(dtype, last=last, names=names), strict=True
    ):
        (tmp_path / f"m{suffix}").write_bytes(data)
    for form in ("zero-insertion", "phases", "stacked"):
        low = ird.lower(ird.read(tmp_path / "m.xml"), form)
        ird.write(low.graph, tmp_path / "low.xml")
        report = ird.check_certificate(tmp_path / "m.xml", tmp_path / "low.xml")
        assert report.passed, str(report)
        assert len(report.layers) == 1
        kept = "up/ConvolutionBackpropData" in {n.name for n in low.graph.nodes()}
        assert kept == last


@pytest.mark.oracles
@each_row("names", ["", ' names="tensor"'])
def test_openvino_knows_the_lowered_output_by_the_same_names(names: str, tmp_path: Path) -> None:
    ov = pytest.importorskip("openvino")
    data = deconvolution("f16", last=True, names=names)
    ird.write(ird.lower(ird.read(*data)).graph, tmp_path / "low.xml")
    source = ov.Core().read_model(*data)
    low = ov.Core().read_model(tmp_path / "low.xml")
    assert low.outputs[0].names >= source.outputs[0].names
