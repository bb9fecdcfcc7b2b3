"""Files that are no IR, weights that do not fit, and random mutations: diagnostics, never more."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import pickle
import random
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.base.limits import Limits
from irdeconv.formats.reading import load
from irdeconv.ir.graph import Graph
from support import irbuild as ib
from support.layers import parameter, result
from support.loading import codes, found, read

# Files -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
    ("data", "code", "kind"),
    [
        (b"<net>", "E101", "not well-formed XML"),
        (b"\n<net", "E101", "not well-formed XML"),
        (b"\xef\xbb\xbf<net>", "E101", "not well-formed XML"),
        ("<net>".encode("utf-16"), "E101", "UTF-16 text, not well-formed XML"),
        ("<net>".encode("utf-16-le"), "E101", "UTF-16 text, not well-formed XML"),
        (b"net:", "E101", "plain text, not well-formed XML"),
        (b"", "E101", "empty"),
        (b" \n", "E101", "empty"),
        ("<net/>".encode("utf-32"), "E110", "UTF-32 text"),
        ("<net/>".encode("utf-32-be"), "E110", "UTF-32 text"),
        (b"\x08\x09\x12", "E110", "an ONNX model"),
        (b' {"graph": []}', "E110", "JSON"),
        (b'graph 1 "net" {', "E110", "the text form of a graph"),
        (gzip.compress(b"<net/>"), "E110", "compressed by gzip"),
        (bz2.compress(b"<net/>"), "E110", "compressed by bzip2"),
        (lzma.compress(b"<net/>"), "E110", "compressed by xz"),
        (zipped("x.npy"), "E110", "an archive of NumPy arrays (.npz)"),
        (zipped("model/data.pkl"), "E110", "a PyTorch file"),
        (zipped("config.json"), "E110", "a Keras model"),
        (zipped("model.xml"), "E110", "a zip archive"),
        (pickle.dumps([1]), "E110", "a Python pickle, as PyTorch wrote it"),
        (b"\x1c\0\0\0TFL3\x14\0", "E110", "a TensorFlow Lite model"),
        (b"version https://git-lfs.github.com/spec/v1\n", "E110", "a git-lfs pointer"),
        (b"<!DOCTYPE html>\n<html><p>", "E110", "a web page"),
        (b"\n<HTML>", "E110", "a web page"),
        (b"\x7fELF\2\1\1\0", "E110", "a program or library (ELF)"),
        (bytes(range(256)), "E110", "binary data"),
    ],
    ids=lambda value: "data" if isinstance(value, bytes) else None,  # some hold the time
)
def test_the_kind_of_file_is_told(data: bytes, code: str, kind: str) -> None:
    (problem,) = read(data).diagnostics
    assert (problem.code, problem.hint is not None) == (code, True)
    assert kind in problem.message


def test_weights_that_are_something_else(tmp_path: Path) -> None:
    """What the file is is said once, whatever the number of constants."""
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n"
    for data, message in [
        (b"", "<memory> is empty"),
        (pointer[:23], "<memory> is a git-lfs pointer, not weights"),
        (b"<html><p>404", "<memory> is a web page, not weights"),
        (gzip.compress(b"")[:20], "<memory> is compressed by gzip, not weights"),
        (bytes(12), '<memory> has 12 bytes: Const "c" lies at 0 to 24'),
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
    assert loaded.graph is not None
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
    assert loaded.graph is not None
    assert not loaded.graph.node(2).op.data.available  # type: ignore[attr-defined]


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
        values = list(re.finditer(r'(?<=")[^"<>]*(?=")', text))
        m = rng.choice(values)
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


def test_names_that_are_no_unicode_are_refused_by_layer(tmp_path: Path) -> None:
    g = Graph()
    result(g, parameter(g, (2,), np.float32, "\ud800"))
    with pytest.raises(ird.InputError) as refused:
        ird.write(ird.infer(g), tmp_path / "m.xml")
    (found,) = refused.value.diagnostics
    assert (found.code, found.layer) == ("E701", "\ud800")
    assert list(tmp_path.iterdir()) == []
