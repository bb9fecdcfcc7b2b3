"""Malformed files and what is said of them."""

import bz2
import gzip
import io
import lzma
import os
import random
import re
import zipfile
from pathlib import Path

import pytest

import irdeconv as ird
from irdeconv.base.limits import Limits
from irdeconv.formats.reading import load
from support import irbuild as ib
from support.loading import codes, found, read
from support.rows import each_row, tables

TABLES = tables(__file__)

# Broken IRs: one run reports everything, with code, line and column, and never raises.


def test_the_control_is_clean() -> None:
    loaded = read(ib.chain())
    assert found(loaded) == []
    assert loaded.graph is not None


# What is replaced in the control, by what, and what is reported at the place of which text.
def place(text: str, part: str) -> tuple[int, int]:
    at = text.index(part)
    return text.count("\n", 0, at) + 1, at - (text.rfind("\n", 0, at) + 1) + 1


@each_row(("old", "new", "expected"), TABLES["edits"])
def test_one_defect(old: str, new: str, expected: list[tuple[str, str]]) -> None:
    xml = ib.chain()
    assert xml.count(old) >= 1
    xml = xml.replace(old, new, 1)
    assert found(read(xml)) == sorted((code, *place(xml, part)) for code, part in expected)


def test_all_defects_in_one_run() -> None:
    xml = ib.chain()
    edits = {
        'type="ReLU"': 'type="Relux"',
        'offset="0"': 'offset="-1"',
        '<data shape="2,3"': '<data shape="2,x"',
        'to-layer="4" to-port="0"': 'to-layer="4" to-port="5"',
        "</net>": "<extra/></net>",
    }
    for old, new in edits.items():
        xml = xml.replace(old, new, 1)
    loaded = read(xml)
    assert codes(loaded) == ["E107", "E202", "E206", "E213", "W102"]
    types = "Parameter Relux Const Add Result"
    assert [n.type for n in loaded.graph.nodes()] == types.split()
    assert str(loaded.graph.node(2).spec()) == "f32[2,3]"  # as declared


@pytest.mark.parametrize("version", ["", ' version="opset1"', ' version="opset11"'])
def test_conv_transpose_lists_the_spellings(version: str) -> None:
    xml = ib.chain().replace('type="ReLU" version="opset1"', f'type="ConvTranspose"{version}')
    (d,) = read(xml).diagnostics
    assert d.severity == "error"
    for spelled in ("onnx_opset1", "onednn_graph_1", "com.ms.internal.nhwc_11"):
        assert f'version="{spelled}"' in (d.hint or "")


def test_cycle_names_its_layers() -> None:
    layers = [ib.parameter(0, "x"), ib.add(1, "a"), ib.relu(2, "b"), ib.relu(3, "c")]
    layers += [ib.result(4, "y"), ib.relu(5, "behind"), ib.result(6, "z")]
    wires = [(0, 0, 1, 0), (3, 1, 1, 1), (1, 2, 2, 0), (2, 1, 3, 0), (3, 1, 4, 0)]
    wires += [(3, 1, 5, 0), (5, 1, 6, 0)]
    loaded = read(ib.net(layers, *wires), b"")
    assert loaded.graph is None
    (d,) = loaded.diagnostics
    assert (d.code, d.layer) == ("E205", "a")
    assert d.message.endswith('a cycle: "a" -> "b" -> "c" -> "a"')


def test_no_result() -> None:
    loaded = read(ib.net([ib.parameter(0, "x"), ib.relu(1, "r")], (0, 0, 1, 0)), b"")
    assert codes(loaded) == ["E209"]
    assert codes(read("<net name='m' version='11'><layers/><edges/></net>", b"")) == ["E209"]
    assert codes(read("<net name='m' version='11'></net>", b"")) == ["E104", "E104"]


def test_dead_layers() -> None:
    dead = ib.layer(9, "d", "FooBar", inputs=[ib.port(0)], outputs=[ib.port(1)])
    layers = [ib.parameter(0, "x"), ib.result(1, "y"), ib.parameter(2, "unused"), dead]
    layers += [ib.relu(3, "r")]
    loaded = read(ib.net(layers, (0, 0, 1, 0), (0, 0, 9, 0), (9, 1, 3, 0)), b"")
    assert [(d.code, d.severity, d.layer) for d in loaded.diagnostics] == [
        ("W201", "warning", "d"),
        ("W205", "warning", "unused"),
        ("W201", "warning", "r"),
    ]


def test_tensor_names() -> None:
    xml = ib.chain().replace('<port id="0" precision', '<port id="0" names="t" precision', 1)
    xml = xml.replace(
        '<output><port id="1" precision', '<output><port id="1" names="u,t" precision'
    )
    assert codes(read(xml)) == ["W206"]


PORT_MAP = (
    '<input external_port_id="{e}" internal_layer_id="{i}" {more}/>\n'
    '<output external_port_id="1" internal_layer_id="2" axis="0"/>'
)


@each_row(("entry", "expected", "part"), TABLES["port_maps"])
def test_port_maps(entry: dict[str, str], expected: str, part: str) -> None:
    port_map = PORT_MAP.format(**({"e": "0", "i": "0", "more": 'axis="0"'} | entry))
    xml = ib.loop(port_map=port_map)
    got = [f for f in found(read(xml, b"")) if f[0] not in ("W204",)]
    assert (expected, *place(xml, part)) in got
    assert len(got) == 1


def test_bodies_are_checked() -> None:
    assert set(codes(read(ib.loop(), b""))) <= {"W204"}
    xml = ib.loop(body_edges=((0, 0, 1, 0), (7, 1, 2, 0)))
    assert ("E202", *place(xml, 'from-layer="7"')) in found(read(xml, b""))
    xml = ib.loop(back_edges='<edge from-layer="1" to-layer="0"/>')
    assert ("E211", *place(xml, 'from-layer="1" to-layer="0"/>')) in found(read(xml, b""))
    xml = ib.loop().replace('name="br" type="ReLU"', 'name="br" type="Nope"')
    assert ("E206", *place(xml, 'type="Nope"')) in found(read(xml, b""))


def test_of_many_ports_a_message_names_the_first() -> None:
    ports = "".join(f'<port id="{i}"/>' for i in range(30))
    layer = f'<layer id="1" name="c" type="Concat" version="opset1"><input>{ports}</input></layer>'
    edge = '<edge from-layer="1" from-port="0" to-layer="1" to-port="99"/>'
    text = f'<net version="11"><layers>{layer}</layers><edges>{edge}</edges></net>'
    (found,) = (d.message for d in ird.validate(text.encode()) if "port 99" in d.message)
    assert "there are: 0, 1, 2, " in found
    assert found.endswith(" 19, ... (30 in all))")


# Files that are no IR, weights that do not fit, and random mutations: diagnostics, never more.

# Files -----------------------------------------------------------------------------------------


@each_row(
    ("data", "code"),
    [
        (b"", "E101"),
        (b"  \n", "E101"),
        (b"\0\0\0", "E110"),
        (b"PK\x03\x04", "E110"),
        (b"<net", "E101"),
        (b"<net version='11'><layers>", "E101"),
        (b"<model/>", "E103"),
        (b"<?xml version='1.0' encoding='utf-99'?><net/>", "E101"),
        (b"<net version='11' name='\xff\xfe'/>", "E101"),
        (b"<!DOCTYPE n [<!ENTITY a 'b'>]><net name='&a;'/>", "E102"),
        (b"<!-- x --><!DOCTYPE net SYSTEM 'file:///etc/hostname'><net/>", "E102"),
        (b"<net version='11' name='&undefined;'/>", "E101"),
    ],
)
def test_files_that_are_no_ir(data: bytes, code: str) -> None:
    loaded = read(data)
    assert loaded.graph is None
    assert [d.code for d in loaded.diagnostics] == [code]
    assert loaded.diagnostics[0].location is not None
    assert loaded.diagnostics[0].location.position is not None


def zipped(name: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, b"12345678")
    return buffer.getvalue()


@each_row(
    ("data", "code", "kind"),
    [
        (b"<net>", "E101", "not well-formed XML"),
        (b"\n<net", "E101", "not well-formed XML"),
        (b"\xef\xbb\xbf<net>", "E101", "not well-formed XML"),
        ("<net>".encode("utf-16"), "E101", "UTF-16 text, not well-formed XML"),
        ("<net>".encode("utf-16-le"), "E101", "UTF-16 text, not well-formed XML"),
        (b" \n", "E101", "empty"),
        ("<net/>".encode("utf-32-be"), "E110", "UTF-32 text"),
        (b"\x08\x09\x12", "E110", "an ONNX model"),
        (b' {"graph": []}', "E110", "JSON"),
        (b'graph 1 "net" {', "E110", "the text form of a graph"),
        (bz2.compress(b"<net/>"), "E110", "compressed by bzip2"),
        (lzma.compress(b"<net/>"), "E110", "compressed by xz"),
        (zipped("model/data.pkl"), "E110", "a PyTorch file"),
        (zipped("config.json"), "E110", "a Keras model"),
        (zipped("model.xml"), "E110", "a zip archive"),
        (b"\n<HTML>", "E110", "a web page"),
        (b"\x7fELF\2\1\1\0", "E110", "a program or library (ELF)"),
        (bytes(range(256)), "E110", "binary data"),
    ],
)
def test_the_kind_of_file_is_told(data: bytes, code: str, kind: str) -> None:
    (problem,) = read(data).diagnostics
    assert (problem.code, problem.hint is not None) == (code, True)
    assert kind in problem.message


def test_weights_that_are_something_else() -> None:
    """What the file is is said once, whatever the number of constants."""
    for data, message in [
        (b"<html><p>404", "<memory> is a web page, not weights"),
        (gzip.compress(b"")[:20], "<memory> is compressed by gzip, not weights"),
    ]:
        (problem,) = read(ib.chain(), data).diagnostics
        assert problem.code == "E121"
        assert problem.message == message


def test_entities_do_not_expand() -> None:
    laughs = "".join(f"<!ENTITY l{i} '{f'&l{i - 1};' * 10}'>" for i in range(1, 10))
    xml = f"<!DOCTYPE net [<!ENTITY l0 'lol'>{laughs}]><net name='&l9;' version='11'/>"
    assert codes(read(xml)) == ["E102"]


def test_other_encodings() -> None:
    xml = '<?xml version="1.0" encoding="utf-16"?>' + ib.chain()
    assert found(read(xml.encode("utf-16"))) == []
    xml = '<?xml version="1.0" encoding="iso-8859-1"?>' + ib.chain().replace('"r"', '"é"')
    loaded = read(xml.encode("latin-1"))
    assert found(loaded) == []
    assert loaded.graph.node(1).name == "é"


def test_depth_and_counts() -> None:
    deep = "<a>" * 5000 + "</a>" * 5000
    assert codes(read(ib.chain().replace("</net>", f"{deep}</net>"))) == ["E603"]
    nested = "<body><layers><layer>" * 60 + "</layer></layers></body>" * 60
    xml = ib.chain().replace("</layer>", f"{nested}</layer>", 1)
    assert "E603" in codes(load(xml.encode(), b"", limits=Limits(depth=20)))
    assert codes(load(ib.chain().encode(), b"", limits=Limits(layers=3))) == ["E601"]
    assert codes(load(ib.chain().encode(), b"", limits=Limits(edges=3))) == ["E601"]
    assert codes(load(ib.chain().encode(), b"", limits=Limits(xml_bytes=99))) == ["E600"]


def test_long_texts() -> None:
    xml = ib.chain().replace("<dim>2", "<dim>" + "2" * 11_000_000, 1)
    assert codes(read(xml)) == ["E600"]


def test_repeated_problems_are_counted() -> None:
    layers = [ib.layer(i, f"n{i}", "Nope", outputs=[ib.port(0)]) for i in range(1, 40)]
    ends = [(i, 0, 100 + i, 0) for i in range(1, 40)]
    results = [ib.result(100 + i, f"r{i}") for i in range(1, 40)]
    loaded = load(ib.net(layers + results, *ends).encode(), b"", limits=Limits(reports=5))
    assert codes(loaded) == ["E206"] * 6
    assert loaded.diagnostics[-1].message == "34 more like this one are not shown"


# Weights ---------------------------------------------------------------------------------------


def test_missing_weights(tmp_path: Path) -> None:
    (tmp_path / "m.xml").write_text(ib.chain())
    loaded = load(tmp_path / "m.xml")
    (problem,) = loaded.diagnostics
    assert problem.code == "E120"
    assert (
        problem.message == f'the weights file {tmp_path / "m.bin"} is missing; Const "c" needs it'
    )
    loaded = load(tmp_path / "m.xml", weights=False)
    (problem,) = loaded.diagnostics
    assert (problem.code, problem.severity) == ("W120", "note")
    assert not loaded.graph.node(2).op.data.available  # type: ignore[attr-defined]


def test_splits_without_weights_have_the_declared_outputs(tmp_path: Path) -> None:
    ports = [ib.port(0, (2, 3)), ib.port(1, (), "I64"), ib.port(2, (-1,), "I64")]
    split = ib.layer(3, "s", "VariadicSplit", inputs=ports, outputs=[ib.port(3, (2, 3))])
    axis, lengths = ib.const(1, "a", (), 0, 8, "i64"), ib.parameter(2, "n", (-1,), "i64")
    ends = (0, 0, 3, 0), (1, 0, 3, 1), (2, 0, 3, 2), (3, 3, 4, 0)
    path = tmp_path / "m.xml"
    path.write_text(ib.net([ib.parameter(0, "x"), axis, lengths, split, ib.result(4, "y")], *ends))
    (tmp_path / "m.bin").write_bytes(bytes(8))
    assert {d.code for d in ird.validate(path)} == {"E305"}
    assert {d.code for d in ird.validate(path, weights=False)} == {"W120"}


def test_empty_and_long_weights() -> None:
    assert codes(read(ib.chain(), b"")) == ["E121"]
    assert codes(read(ib.chain(), bytes(124))) == ["W121"]


def test_unreadable_files(tmp_path: Path) -> None:
    (tmp_path / "m.xml").write_text(ib.chain())
    (tmp_path / "m.bin").mkdir()
    assert codes(load(tmp_path / "m.xml")) == ["E100"]
    assert codes(load(tmp_path)) == ["E100"]
    assert codes(load(tmp_path / "none.xml")) == ["E100"]
    assert codes(load("a\0b.xml")) == ["E100"]
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "fifo")
        assert codes(load(tmp_path / "m.xml", tmp_path / "fifo")) == ["E100"]
        assert codes(load(tmp_path / "fifo")) == ["E100"]


# Mutations -------------------------------------------------------------------------------------

SEEDS = [ib.chain(), ib.loop(), ib.state()]
WORDS = ["-1", "0", "99999999999999999999", "five", "", "&#9;", "\u2028", "opset1", "1,2,,", "é"]


def mutate(text: str, rng: random.Random) -> bytes:
    data = bytearray(text.encode())
    kind = rng.randrange(5)
    if kind == 0:
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
    elif kind == 1:
        del data[rng.randrange(len(data)) :]
    elif kind == 2:
        attributes = list(re.finditer(r' [\w-]+="[^"]*"', text))
        for m in sorted(rng.sample(attributes, 2), key=lambda m: -m.start()):
            text = text[: m.start()] + text[m.end() :]
        return text.encode()
    elif kind == 3:
        m = rng.choice(list(re.finditer(r'(?<=")[^"<>]*(?=")', text)))
        return (text[: m.start()] + rng.choice(WORDS) + text[m.end() :]).encode()
    else:
        lines = text.splitlines(True)
        rng.shuffle(lines) if rng.random() < 0.2 else lines.pop(rng.randrange(len(lines)))
        if rng.random() < 0.3:
            lines.append(rng.choice(lines))
        return "".join(lines).encode()
    return bytes(data)


@pytest.mark.parametrize("seed", range(20))
def test_mutations_never_raise(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(60):
        data = mutate(rng.choice(SEEDS), rng)
        loaded = load(data, rng.choice([ib.CHAIN_BYTES, b"", None]))
        found(loaded)
        assert loaded.graph is not None or loaded.errors
        if loaded.graph is not None:
            loaded.graph.lint()
