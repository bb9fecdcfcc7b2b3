"""The proof's own reader: what OpenVINO reads, exactly, or a refusal in one sentence."""

import hashlib
import os
from pathlib import Path

import numpy as np
import pytest

from irdeconv.proof.model import Fact, Model, Port, Unproved
from irdeconv.proof.reader import read, shape_of, signature
from support.commands import Patch
from support.rows import tables
from support.runtime_truth import outputs

TABLES = tables(__file__)

PARAMETER = (
    '<layer id="0" name="x" type="Parameter" version="opset1">'
    '<data shape="2,?,3..5" element_type="f32"/>'
    '<output><port id="0" precision="FP32" names="x"/></output></layer>'
)
CONST = (
    '<layer id="1" name="c" type="Const" version="opset1">'
    '<data element_type="f32" shape="3, 1" offset="4" size="12"/>'
    '<output><port id="0" precision="FP32"/></output></layer>'
)
SUBTRACT = (
    '<layer id="2" name="d" type="Subtract" version="opset1"><data auto_broadcast="numpy"/>'
    '<input><port id="7"/><port id="3"/></input>'
    '<output><port id="1" precision="FP32" names="d,e"/></output></layer>'
)
RESULT = (
    '<layer id="3" name="r" type="Result" version="opset1"><input><port id="0"/></input></layer>'
)
EDGES = (
    '<edge from-layer="1" from-port="0" to-layer="2" to-port="3"/>'
    '<edge from-layer="0" from-port="0" to-layer="2" to-port="7"/>'
    '<edge from-layer="2" from-port="1" to-layer="3" to-port="0"/>'
)
XML = (
    f'<?xml version="1.0"?><net name="m" version="11"><layers>{RESULT}{SUBTRACT}{CONST}{PARAMETER}'
    f"</layers><edges>{EDGES}</edges><rt_info/></net>"
)
WEIGHTS = np.arange(4, dtype="<f4").tobytes()


def written(folder: Path, xml: str = XML, weights: bytes = WEIGHTS) -> Model:
    (folder / "m.xml").write_text(xml, "utf-8")
    (folder / "m.bin").write_bytes(weights)
    return read(folder / "m.xml")


def described(model: Model) -> list[object]:
    """Return what a model computes, as far as its layers and edges say it."""
    return [(signature(y), y.inputs) for y in model.layers]


def test_a_model_is_read_in_the_order_of_its_edges_and_ports(tmp_path: Path) -> None:
    model = written(tmp_path)
    assert [str(y) for y in model.layers] == [
        'Parameter "x"', 'Const "c"', 'Subtract "d"', 'Result "r"'
    ]  # fmt: skip
    assert model.layers[2].inputs == (Port(0), Port(1))  # by position, whatever the ids
    assert (model.parameters, model.results, model.rest) == ((0,), (3,), "version 11")
    assert model.layers[0].outputs == (Fact("f32", (2, (0, None), (3, 5))),)
    for kind, data in (("xml", XML.encode()), ("bin", WEIGHTS)):
        assert model.files[kind] == (hashlib.sha256(data).hexdigest(), len(data))
    constant = model.layers[1].elements
    assert constant is not None
    assert constant.type == "f32"
    np.testing.assert_array_equal(constant.array, [[1], [2], [3]])
    assert model.layers[1].attributes == {"element_type": "f32", "shape": "3,1"}
    assert model.layers[3].names == (("d", "e"),)


def test_partial_shapes() -> None:
    assert shape_of("") == ()
    assert shape_of("...") is None
    assert shape_of("1, ?,-1,2..5,..9,3..") == (
        1, (0, None), (0, None), (2, 5), (0, 9), (3, None)
    )  # fmt: skip


REFUSED = TABLES["refused"]


@pytest.mark.parametrize("case", sorted(REFUSED))
def test_what_is_not_exact_is_refused(case: str, tmp_path: Path) -> None:
    old, new, message = REFUSED[case]
    assert old in XML
    with pytest.raises(Unproved, match=message):
        written(tmp_path, XML.replace(old, new, 1))


def test_a_constant_without_data_is_refused(tmp_path: Path) -> None:
    data = CONST[CONST.index("<data") : CONST.index("<output")]
    with pytest.raises(Unproved, match='Const "c": it has no data'):
        written(tmp_path, XML.replace(data, ""))


def test_a_file_that_is_cut_off_meanwhile_is_no_fault(tmp_path: Path, monkeypatch: Patch) -> None:
    model = written(tmp_path)
    xml = next(tmp_path.glob("*.xml"))
    os.truncate(xml.with_suffix(".bin"), 0)
    assert "Const" in str(described(model))  # nothing of it is read from the file any more
    real = os.fstat

    def longer(fd: int) -> os.stat_result:
        found = real(fd)
        return os.stat_result((*found[:6], found.st_size + 9, *found[7:]))

    monkeypatch.setattr(os, "fstat", longer)
    with pytest.raises(Unproved, match="cut off while it was read"):
        read(xml)


def test_attributes_of_xml_itself_are_not_looked_at(tmp_path: Path) -> None:
    plain = written(tmp_path)
    xml = XML.replace("<data auto", '<data xml:x="7" auto').replace(
        "<layer ", '<layer xml:type="x" '
    )
    assert described(written(tmp_path, xml)) == described(plain)


def test_files_that_are_no_files(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing.xml", Path("/dev/zero")):
        with pytest.raises(Unproved):
            read(path)
    written(tmp_path)
    (tmp_path / "m.bin").unlink()
    with pytest.raises(Unproved, match="weights"):
        read(tmp_path / "m.xml")


def relu(id: int, names: str) -> str:
    return (
        f'<layer id="{id}" name="l{id}" type="ReLU" version="opset1"><input><port id="0"/></input>'
        f'<output><port id="1" precision="FP32" names="{names}"/></output></layer>'
    )


def ending(id: int, names: str) -> str:
    text = f' output_names="{names}"' if names else ""
    return (
        f'<layer id="{id}" name="r{id}" type="Result" version="opset1"{text}>'
        '<input><port id="0"/></input></layer>'
    )


def edge(*ends: int) -> str:
    keys = ("from-layer", "from-port", "to-layer", "to-port")
    return "<edge " + " ".join(f'{k}="{n}"' for k, n in zip(keys, ends, strict=True)) + "/>"


def ends(folder: Path, version: int, x: str, a: str, b: str, *results: str) -> Model:
    """Read x -> ReLU -> ReLU -> Results, with these tensor names."""
    layers = PARAMETER.replace('names="x"', f'names="{x}"') + relu(4, a) + relu(5, b)
    layers += "".join(ending(6 + i, names) for i, names in enumerate(results))
    edges = edge(0, 0, 4, 0) + edge(4, 1, 5, 0)
    edges += "".join(edge(5, 1, 6 + i, 0) for i in range(len(results)))
    text = f"<layers>{layers}</layers><edges>{edges}</edges>"
    return written(folder, f'<net name="m" version="{version}">{text}</net>')


@pytest.mark.oracles
@pytest.mark.parametrize("names", TABLES["names"], ids=str)
def test_inputs_and_outputs_are_called_as_in_openvino(
    names: tuple[int, str, str, str], tmp_path: Path
) -> None:
    openvino = pytest.importorskip("openvino")
    model = ends(tmp_path, *names)
    peer = openvino.Core().read_model(tmp_path / "m.xml")
    for places, ports in ((model.parameters, peer.inputs), (model.results, peer.outputs)):
        mine = [{n.replace("\\,", ",") for n in model.layers[i].names[0]} for i in places]
        assert mine == [port.names for port in ports]


@pytest.mark.parametrize(
    "names",
    [(11, "x", "a", "x", ""), (11, "x", "a", "y", "x"), (11, "x", "a", "y", "", "q"),
     (10, "x", "a", "y", "", "")],
    ids=str,
)  # fmt: skip
def test_names_that_openvino_changes_are_refused(
    names: tuple[int, str, str, str], tmp_path: Path
) -> None:
    with pytest.raises(Unproved, match=r"same tensor name|each other's names"):
        ends(tmp_path, *names)


def body(of: str, ids: tuple[int, int], constant: str = "1") -> str:
    """Return a TensorIterator of x + constant, its layers and ports numbered as told."""
    first, port = ids
    number = {k: first + i for i, k in enumerate(("x", "c", "a", "r"))}
    layers = PARAMETER.replace('id="0" name', f'id="{number["x"]}" name', 1)
    layers += CONST.replace('id="1"', f'id="{number["c"]}"', 1).replace(
        'offset="4"', f'offset="{constant}"'
    )
    layers += SUBTRACT.replace('id="2"', f'id="{number["a"]}"', 1)
    layers += RESULT.replace('id="3"', f'id="{number["r"]}"', 1)
    edges = edge(number["c"], 0, number["a"], 3) + edge(number["x"], 0, number["a"], 7)
    edges += edge(number["a"], 1, number["r"], 0)
    return (
        f'<layer id="2" name="{of}" type="TensorIterator" version="opset1"><port_map>'
        f'<input external_port_id="{port}" internal_layer_id="{number["x"]}"/>'
        f'<output external_port_id="{port + 1}" internal_layer_id="{number["r"]}"/></port_map>'
        f'<input><port id="{port}"/></input>'
        f'<output><port id="{port + 1}" precision="FP32"/></output>'
        f"<body><layers>{layers}</layers><edges>{edges}</edges></body></layer>"
    )


def iterating(folder: Path, ids: tuple[int, int], **more: str) -> Model:
    layer = body("loop", ids, **more)
    edges = edge(0, 0, 2, ids[1]) + edge(2, ids[1] + 1, 3, 0)
    text = f"<layers>{PARAMETER}{layer}{RESULT}</layers><edges>{edges}</edges>"
    return written(folder, f'<net name="m" version="11">{text}</net>')


def test_a_body_is_a_model_whose_maps_know_no_ids(tmp_path: Path) -> None:
    def said(ids: tuple[int, int], constant: str = "4") -> tuple[str, list[object]]:
        loop = iterating(tmp_path, ids, constant=constant).layers[1]
        ((tag, inner),) = loop.bodies
        assert (tag, inner.parameters, [inner.layers[i].type for i in inner.results]) == (
            "body", (0,), ["Result"],
        )  # fmt: skip
        return loop.rest, described(inner)

    assert said((0, 0)) == said((7, 3))
    assert said((0, 0))[0] == said((0, 0), constant="0")[0] != ""
    assert said((0, 0))[1] != said((0, 0), constant="0")[1]


def test_bodies_of_other_operations_are_text(tmp_path: Path) -> None:
    def rest(kind: str, constant: str) -> str:
        layer = body("loop", (0, 0), constant).replace('"TensorIterator" version="opset1"', kind)
        text = f"<layers>{PARAMETER}{layer}{RESULT}</layers>"
        text += f"<edges>{edge(0, 0, 2, 0)}{edge(2, 1, 3, 0)}</edges>"
        layer = written(tmp_path, f'<net name="m" version="11">{text}</net>').layers[1]
        assert layer.bodies == ()
        return layer.rest

    for kind in ('"Mystery" version="opset1"', '"TensorIterator" version="vendor"'):
        assert rest(kind, "4") == rest(kind, "4") != rest(kind, "0")


def test_a_body_inside_a_body_inside_a_body_is_refused_in_the_end(tmp_path: Path) -> None:
    xml = '<net version="11"><layers>' + "<layer><body><layers>" * 20_000
    with pytest.raises(Unproved, match="depth"):
        written(tmp_path, xml)


def padding(folder: Path, kind: str, more: str = "", reader: str = "Pad") -> Model:
    """Read Pad(x, c, c), where c has one type or another and may have other readers."""
    array = np.arange(3).astype(kind)
    name = f"{kind[0]}{8 * int(kind[1])}"
    const = (
        '<layer id="1" name="c" type="Const" version="opset1">'
        f'<data element_type="{name}" shape="3" offset="4" size="{array.nbytes}"/>'
        f'<output><port id="0" precision="{name.upper()}"/></output></layer>'
    )
    pad = (
        f'<layer id="2" name="d" type="{reader}" version="opset12">'
        f'<data pad_mode="constant"{more}/>'
        '<input><port id="0"/><port id="1"/><port id="2"/></input>'
        '<output><port id="3" precision="FP32"/></output></layer>'
    )
    edges = edge(0, 0, 2, 0) + edge(1, 0, 2, 1) + edge(1, 0, 2, 2) + edge(2, 3, 3, 0)
    text = f"<layers>{PARAMETER}{const}{pad}{RESULT}</layers><edges>{edges}</edges>"
    return written(
        folder, f'<net name="m" version="11">{text}</net>', bytes(4) + array.tobytes() + bytes(8)
    )


def signatures(model: Model) -> list[tuple[object, ...]]:
    return [signature(layer) for layer in model.layers]


def test_what_openvino_does_not_look_at_is_not_read(tmp_path: Path) -> None:
    plain = signatures(padding(tmp_path, "i8"))
    assert signatures(padding(tmp_path, "i8", ' pad_value="1" unheard_of="2"')) == plain
    other = signatures(padding(tmp_path, "i8", reader="Foreign"))
    assert signatures(padding(tmp_path, "i8", ' unheard_of="2"', reader="Foreign")) != other


@pytest.mark.parametrize("kind", ["i1", "i2", "u1", "u2", "u4", "u8"])
def test_vectors_of_any_integers_are_alike_where_openvino_takes_them(
    kind: str, tmp_path: Path
) -> None:
    assert signatures(padding(tmp_path, kind)) == signatures(padding(tmp_path, "i8"))
    other = signatures(padding(tmp_path, "i8", reader="Foreign"))
    assert signatures(padding(tmp_path, kind, reader="Foreign")) != other


def test_more_bytes_than_a_constant_has_are_not_read(tmp_path: Path) -> None:
    xml = XML.replace('offset="4" size="12"', 'offset="0" size="16"')
    constant = written(tmp_path, xml).layers[1].elements
    assert constant is not None
    np.testing.assert_array_equal(constant.array, [[0], [1], [2]])
    with pytest.raises(Unproved, match="11 bytes are not 3 elements"):
        written(tmp_path, XML.replace('size="12"', 'size="11"'))


@pytest.mark.oracles
def test_openvino_reads_the_same_of_them(tmp_path: Path) -> None:
    xml = XML.replace('offset="4" size="12"', 'offset="0" size="16"').replace("2,?,3..5", "2,3,1")
    xml = xml.replace("<data auto_broadcast", '<data unheard_of="2" auto_broadcast')
    written(tmp_path, xml)
    x = np.arange(6, dtype=np.float32).reshape(2, 3, 1)
    (got,) = outputs(tmp_path / "m.xml", [x])
    np.testing.assert_array_equal(got, x - np.float32([[0], [1], [2]]))
