"""Certificates in files, and lowerings that were written before."""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.ir.dtypes import ELEMENT_TYPES
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.op import REGISTRY
from irdeconv.ops.core import ZeroInsertion
from irdeconv.proof import reader
from irdeconv.proof.model import Model
from irdeconv.rewrite.forms import FORMS
from random_dialects import chain
from support.commands import Answer, Capture, Patch, answer, command
from support.ir_edit import unmark
from support.layers import Layer, begun, build, constant, expected, numbers, result
from support.loading import structure
from support.rows import tables

TABLES = tables(__file__)

# Certificates on the command line: `--certify` and `check-certificate`, files that fit or not.


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A model, its lowering and the certificates in one folder."""
    ird.write(chain(), tmp_path / "a.xml")
    made = command(
        "lower", tmp_path / "a.xml", "-o", tmp_path / "b.xml", "--certify", tmp_path / "c.json"
    )
    assert made == 0
    return tmp_path


def checked(files: Path, *more: object, code: int = 0) -> Answer:
    """What `check-certificate` prints of the two models, by default with the certificates."""
    given = more or ("--certificate", files / "c.json")
    return answer("check-certificate", files / "a.xml", files / "b.xml", *given, code=code)


def with_certificates(files: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the file of certificates."""
    held = json.loads((files / "c.json").read_text())
    change(held)
    (files / "c.json").write_text(json.dumps(held))


def test_certificates_on_the_command_line(files: Path) -> None:
    a, b, c = files / "a.xml", files / "b.xml", files / "c.json"
    held = json.loads(c.read_text())
    assert held["schema"] == "irdeconv/certificates/2"
    assert [x["layer"] for x in held["certificates"]] == ["first", "up/ConvolutionBackpropData"]
    out = answer("check-certificate", a, b, "--certificate", c, "--probe").out
    assert "2 of 2 rewritten layers equal, 1 other unchanged" in out
    assert "probability of at most" in out
    found = answer("check-certificate", a, b, "--probe", "--format", "json").json
    assert found["schema"] == "irdeconv/check-certificate/1"
    assert found["passed"] is found["proof"]["passed"] is found["probe"]["passed"] is True
    assert found["probe"]["error_probability"] < 1e-12


def test_certificates_without_a_file(files: Path, capsys: Capture) -> None:
    assert command("lower", files / "a.xml", "--certify") == 0
    assert "proved first: ConvolutionBackpropData = ZeroInsertion, Pad" in capsys.readouterr().out
    found = answer("lower", files / "a.xml", "--certify", "--format", "json").json
    assert [x["schema"] for x in found["certificates"]] == ["irdeconv/certificate/2"] * 2


def test_a_wrong_lowering_is_refused(files: Path) -> None:
    a, b = files / "a.xml", files / "b.xml"
    weights_file = b.with_suffix(".bin")
    held = bytearray(weights_file.read_bytes())
    at = max(held.find(np.float32(v).tobytes()) for v in (7, -7))
    held[at + 1] ^= 1
    weights_file.write_bytes(held)
    assert "error[E124]" in answer("check-certificate", a, b, code=3).err
    unmark(b)
    out = answer("check-certificate", a, b, code=1).out
    assert "FAIL first: the weights of tap [2, 1] add up to 7.00012207, in the source to 7" in out
    found = answer("check-certificate", a, b, "--probe", "--format", "json", code=1).json
    assert not found["proof"]["passed"]
    assert not found["probe"]["passed"]


def test_a_file_without_certificates(files: Path) -> None:
    for text in ("{}", "[{}]", "no json", '{"certificates": 1}', "[" * 100_000):
        (files / "c.json").write_text(text)
        assert "holds no certificates" in checked(files, code=2).err


# What is written is written as a whole ------------------------------------------------------------


def names(folder: Path) -> set[str]:
    """The files in a folder, hidden ones as well."""
    return {p.name for p in folder.iterdir()}


@pytest.mark.parametrize(("verb", "model"), [("lower", "a.xml"), ("raise", "b.xml")])
def test_no_ir_without_its_certificates(files: Path, verb: str, model: str) -> None:
    before = names(files)
    for proof, reason in [
        (files / "no" / "proof.json", "No such file or directory"),
        (files / "a.xml" / "proof.json", "Not a directory"),
        (files, "Is a directory"),
        (Path("/dev/full"), "No space left on device"),
    ]:
        given = (files / model, "-o", files / "new.xml", "--certify", proof)
        err = answer(verb, *given, code=6).err
        assert err.startswith(f"error[E701]: {proof} cannot be written: {reason}")
        assert names(files) == before, proof


def test_a_model_is_not_replaced_where_the_proof_fails(files: Path, monkeypatch: Patch) -> None:
    """A failure behind the writing of the IR leaves the files of an earlier run as they were."""
    before = {p.name: p.read_bytes() for p in files.iterdir()}

    def fails(*args: object, **options: object) -> None:
        raise MemoryError

    monkeypatch.setattr("irdeconv.verify.check.certified", fails)
    given = ("-o", files / "b.xml", "--certify", files / "c.json", "--form", "phases")
    assert command("lower", files / "a.xml", *given) == 5
    assert {p.name: p.read_bytes() for p in files.iterdir()} == before


@pytest.mark.parametrize("existing", [True, False])
def test_files_give_their_places_back_where_one_cannot_take_its_own(
    files: Path, existing: bool, monkeypatch: Patch
) -> None:
    """A file may be locked: then what was replaced before it returns."""
    before = {p.name: p.read_bytes() for p in files.iterdir()}
    replace = os.replace

    def locked(source: Path, target: Path) -> None:
        if target.suffix == ".json":
            raise PermissionError(1, "Operation not permitted", str(target))
        replace(source, target)

    monkeypatch.setattr(os, "replace", locked)
    out, proof = ("b.xml", "c.json") if existing else ("new.xml", "new.json")
    given = ("-o", files / out, "--certify", files / proof, "--form", "phases")
    assert command("lower", files / "a.xml", *given) == 6
    assert {p.name: p.read_bytes() for p in files.iterdir()} == before


def test_certificates_to_a_device(files: Path) -> None:
    given = ("-o", files / "new.xml", "--certify", "/dev/null")
    assert command("lower", files / "a.xml", *given) == 0
    assert command("check-certificate", files / "a.xml", files / "new.xml") == 0


# Every field of a certificate is compared ---------------------------------------------------------


def changed(certificate: dict[str, Any], path: str, value: Any) -> None:
    *way, last = path.split(".")
    inner: Any = certificate
    for key in way:
        inner = inner[int(key) if key.isdecimal() else key]
    inner[last] = value


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        *TABLES["the_field_that_differs_is_named"],
        ("holds_for", None, 'holds_for: null instead of "the size [1, 3, 4, 5]"'),
    ],
)
def test_the_field_that_differs_is_named(files: Path, path: str, value: Any, named: str) -> None:
    with_certificates(files, lambda held: changed(held["certificates"][0], path, value))
    out = checked(files, code=1).out
    assert f"FAIL first: the certificate states another {named}" in out
    assert "ok   up/ConvolutionBackpropData" in out


def test_a_field_that_no_certificate_has(files: Path) -> None:
    with_certificates(files, lambda held: held["certificates"][0].update(comment="trust me"))
    assert "a certificate has no field comment" in checked(files, code=2).err


# Arguments ----------------------------------------------------------------------------------------


def test_swapped_models(files: Path) -> None:
    a, b = files / "a.xml", files / "b.xml"
    hint = "the first model has no deconvolution, the second has 2 deconvolutions"
    for given in ((), ("--certificate", files / "c.json"), ("--probe",)):
        first = answer("check-certificate", b, a, *given, code=1).out.split("\n")[0]
        assert first.startswith(f"FAIL {hint}: the original comes first")
    ird.write(ird.lower(ird.read(a), "phases").graph, files / "other.xml")
    assert "ok   first: Convolution = " in answer("check-certificate", b, files / "other.xml").out


def test_a_model_with_other_inputs_is_unrelated(files: Path) -> None:
    out = answer(
        "check-certificate", files / "a.xml", "ir_samples/openvino/group_deconv.xml", code=1
    ).out
    assert out.startswith("FAIL the inputs of the second model are not those of the first")
    assert "because of" not in out


# Files, sizes, seeds ------------------------------------------------------------------------------


def test_another_file_than_certified_is_named(files: Path) -> None:
    held = json.loads((files / "c.json").read_text())
    for side, name in (("source", "a"), ("lowered", "b")):
        for kind in ("xml", "bin"):
            data = (files / f"{name}.{kind}").read_bytes()
            digest = hashlib.sha256(data).hexdigest()
            assert held[side][kind] == {"sha256": digest, "size": len(data)}
    text = (files / "b.xml").read_text()
    (files / "b.xml").write_text(text.replace("<net ", "<net  "))
    found = " ".join(checked(files, code=1).out.split())
    assert "the .xml of the lowered model is another file than certified" in found
    assert f"{len(text)} bytes" in found


def test_hashes_are_of_the_bytes_that_the_core_read(files: Path, monkeypatch: Patch) -> None:
    """A file that is replaced while it is proved is not the one that a certificate is of."""
    before = {n: hashlib.sha256((files / n).read_bytes()).hexdigest() for n in ("b.xml", "b.bin")}
    read = reader.read

    def replaced(xml: Path, bin: Path | None) -> Model:
        model = read(xml, bin)
        for name in before if Path(xml).name == "b.xml" else ():
            (files / "new").write_bytes(b"<net/>")
            os.replace(files / "new", files / name)
        return model

    monkeypatch.setattr(reader, "read", replaced)
    made = ird.certify(files / "a.xml", files / "b.xml")
    assert {f"b.{kind}": said["sha256"] for kind, said in made.lowered.items()} == before


def test_an_older_schema_is_told(files: Path) -> None:
    (files / "c.json").write_text('{"schema": "irdeconv/certificates/1", "certificates": []}')
    found = " ".join(checked(files, code=2).err.split())
    assert "it is of the schema irdeconv/certificates/1; make it anew" in found


@pytest.fixture
def stepped(tmp_path: Path) -> Path:
    """A layer of open size, and one that differs from it where a Slice of step 64 has 2 elements.

    Of up to 64 columns it takes one, the last output column being multiplied by their number.
    """
    g, x = begun((1, 2, 3, None))
    w = constant(g, np.arange(24, dtype=np.float32).reshape(2, 3, 2, 2) - 9, "w")
    up = g.add(REGISTRY["ConvolutionBackpropData", "opset1"](strides=(2, 2)), [x, w], name="up")
    result(g, Value(up.id), "y")
    source = ird.infer(g)
    ird.write(source, tmp_path / "a.xml")
    low = ird.lower(source).graph
    (up,) = low.find("up")
    shape_of, x = REGISTRY["ShapeOf", "opset3"](), Value(low.parameters[0].id)
    size = Value(low.add(shape_of, [x], name="size").id)
    at = [constant(low, np.array([v], np.int64), f"at{v}") for v in (3, 0)]
    columns = low.add(REGISTRY["Gather", "opset8"](), [size, at[0], at[1]], name="columns")
    sixty = constant(low, np.array([64], np.int64), "sixty")
    more = low.add(REGISTRY["Divide", "opset1"](), [Value(columns.id), sixty], name="more")
    real = REGISTRY["Convert", "opset1"](ELEMENT_TYPES["f32"])
    added = low.add(real, [Value(more.id)], name="added")
    users = low.users(Value(up.id))
    end = low.add(REGISTRY["Add", "opset1"](), [Value(up.id), Value(added.id)], name="end")
    for user, port in users:
        low.set_input(user, port, Value(end.id))
    up.name, end.name = end.name, up.name
    up.tensor_names, end.tensor_names = (), up.tensor_names
    ird.write(ird.infer(low), tmp_path / "b.xml")
    return tmp_path


def test_equal_for_some_sizes_has_a_code_of_its_own(stepped: Path) -> None:
    given = ("check-certificate", stepped / "a.xml", stepped / "b.xml")
    assert "NOT proved for every size" in answer(*given, code=7).out
    out = answer(*given, "--sizes", "x=1,2,3,40").out
    assert "for the size [1, 2, 3, 40]" in out
    assert "with the inputs x[1,2,3,40]" in out
    assert command(*given, "--sizes", "x=1,2,3,64") == 1


def test_weights_that_are_rounded_outside_of_regions_are_told(tmp_path: Path) -> None:
    """The layer in front of the deconvolution reads its filter from f16 in the second file."""
    change = 2.0**-12  # of 1 + 2^-12, that becomes 1
    for name, type in (("a", "f32"), ("b", "f16")):
        g, x = begun((1, 1, 3, 4))
        held = np.full((1, 1, 1, 1), 1 + change, np.float32).astype(type.replace("f", "float"))
        w = constant(g, held, "w" if type == "f32" else "half")
        if type == "f16":
            w = Value(g.add(REGISTRY["Convert", "opset1"](ELEMENT_TYPES["f32"]), [w], name="w").id)
        front = g.add(REGISTRY["Convolution", "opset1"](), [x, w], name="front")
        taps = constant(g, np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2), "taps")
        deconvolution = REGISTRY["ConvolutionBackpropData", "opset1"](strides=(2, 2))
        result(g, Value(g.add(deconvolution, [Value(front.id), taps], name="up").id), "y")
        graph = ird.infer(g)
        ird.write(graph if name == "a" else ird.lower(graph).graph, tmp_path / f"{name}.xml")
    report = ird.check_certificate(tmp_path / "a.xml", tmp_path / "b.xml")
    made = ird.certify(tmp_path / "a.xml", tmp_path / "b.xml")
    assert report.passed
    assert report.layers[0].rounding == 0.0
    assert report.rounding == made.rounding == pytest.approx(change / (1 + change))
    for shown in (str(report), report._repr_html_(), str(made), made._repr_html_()):
        plain = shown.replace("<wbr>", "")
        assert "all weights are equal up to rounding: largest relative change 2.4e-04" in plain
    both = ("check-certificate", tmp_path / "a.xml", tmp_path / "b.xml")
    assert "all weights are equal up to rounding" in answer(*both).out
    back = ird.certify(tmp_path / "a.xml", tmp_path / "b.xml").to_json()
    (tmp_path / "c.json").write_text(back.replace(' "rounding": 0.000', ' "rounding": 0.001', 1))
    assert "states another rounding" in checked(tmp_path, code=1).out


@pytest.mark.parametrize(("verb", "model"), [("lower", "a.xml"), ("raise", "b.xml")])
def test_certificates_keep_what_a_probe_evaluated(
    files: Path, verb: str, model: str, capsys: Capture
) -> None:
    given = (verb, files / model, "-o", files / "new.xml", "--probe")
    assert command(*given, "--certify", files / "p.json") == 0
    held = json.loads((files / "p.json").read_text())["probe"]
    assert [y["layer"] for y in held["layers"]] == ["first", "up/ConvolutionBackpropData"]
    assert held["layers"][0]["sizes"] == "2 random points at 1 size: [1, 3, 4, 5]"
    assert held["layers"][0]["reason"] is None
    assert held["differs"] is False
    assert 0 < held["error_probability"] < 1e-12
    out = " ".join(capsys.readouterr().out.split())
    assert f"the seed {held['seed']} repeats it" in out
    text = (files / "p.json").read_text()
    assert ird.Certificates.from_json(text).to_json() == text
    for wrong in ("{}", "[1]", '{"seed": 1}', '"yes"'):
        broken = json.dumps({**json.loads(text), "probe": json.loads(wrong)})
        with pytest.raises(ValueError, match=r"missing|indices|subscript"):
            ird.Certificates.from_json(broken)
    pair = [files / model, files / "new.xml"][:: 1 if verb == "lower" else -1]
    more = ("--probe", "--seed", held["seed"], "--certificate", files / "p.json")
    assert command("check-certificate", *pair, *more) == 0
    assert f"at most {held['error_probability']:.1e}" in " ".join(capsys.readouterr().out.split())


def test_the_seed_of_a_probe_is_printed(files: Path) -> None:
    given = ("check-certificate", files / "a.xml", files / "b.xml")
    seed = answer(*given, "--probe", "--format", "json").json["probe"]["seed"]
    assert f"--seed {seed} repeats it" in answer(*given, "--probe", "--seed", seed).words


# Files of lowered models: read back as they were, of old operations; earlier files, too.

OLD = Path(__file__).parent.parent / "golden" / "old_spelling"
OLD_LAYER = Layer(2, (2, 3), None, 2, 3, (3, 2), (2, 3), (1, 1), (1, 0), (0, 1), (0, 0))
LAYERS = (
    Layer(1, (4,), None, 2, 3, (3,), (2,), (1,), (1,), (0,), (0,)),
    Layer(2, (3, 4), 2, 2, 1, (3, 2), (2, 3), (1, 2), (1, 0), (0, 1), (0, 1)),
    Layer(1, (3, 2), None, 2, 1, (2, 2), (2, 2), (1, 1), (0, 0), (0, 0), (0, 0)),
    Layer(1, (2, 3, 4), 2, 1, 2, (2, 3, 1), (2, 1, 3), (1, 1, 1), (1, 1, 0), (0, 0, 0), (0,) * 3),
)
OLDEST = 8  # what a lowering adds is of this operation set or an earlier one


def made(layer: Layer, kind: str) -> Graph:
    """A layer whose sizes are fixed or open, whose filter or output shape is an input."""
    rng = np.random.default_rng(6)
    x, w = (numbers(rng, s, np.float32) for s in (layer.data_shape, layer.filter_shape))
    free = (None, layer.data_shape[1], *(None,) * layer.axes)
    options = {
        "fixed": {},
        "open": {"data_shape": free},
        "filter": {"filter_input": True},
        "size": {"data_shape": free, "shape_source": "input"},
    }
    if kind == "size":
        layer = Layer(**{**vars(layer), "output_shape": layer.output_size})
    return build(layer, x, w, **options[kind])[0]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["fixed", "open", "filter", "size"])
def test_a_lowered_model_is_read_back_and_of_old_operations(
    tmp_path: Path, form: str, kind: str
) -> None:
    for layer in LAYERS:
        low = ird.lower(made(layer, kind), form).graph
        ird.write(low, tmp_path / "m.xml")
        again = ird.read(tmp_path / "m.xml")
        ours, theirs = ([n.op for n in g.nodes("ZeroInsertion")] for g in (low, again))
        assert ours == theirs
        ird.write(again, tmp_path / "again.xml")
        third = ird.read(tmp_path / "again.xml")
        assert structure(ird.infer(third)) == structure(ird.infer(again))
        if kind != "size":  # pads that are computed are written in other operations
            assert structure(ird.infer(again)) == structure(low)
            for suffix in ("xml", "bin"):
                first, second = ((tmp_path / f"{n}.{suffix}").read_bytes() for n in ("m", "again"))
                assert first == second
        xml = (tmp_path / "m.xml").read_text("utf-8")
        versions = dict.fromkeys(re.findall(r'type="(\w+)" version="opset(\d+)"', xml))
        assert {int(number) for _, number in versions} <= set(range(1, OLDEST + 1)), versions
        assert {t for t, _ in versions if "BackpropData" in t} == set()
        assert ("Pad", "12") not in versions


def test_newer_operations_of_the_model_stay(tmp_path: Path) -> None:
    """A Pad of opset12 beside the deconvolution is not touched."""
    assert 'type="Pad" version="opset12"' in (OLD / "fixed.xml").read_text("utf-8")
    graph = ird.read(OLD / "fixed.xml")
    ird.write(ird.lower(graph).graph, tmp_path / "m.xml")
    assert 'type="Pad" version="opset12"' in (tmp_path / "m.xml").read_text("utf-8")


@pytest.mark.parametrize("name", ["fixed", "open"])
def test_the_spelling_of_former_versions_is_recognised(tmp_path: Path, name: str) -> None:
    """Earlier versions wrote Unsqueeze, a Pad of opset12 and a Reshape."""
    graph = ird.read(OLD / f"{name}.xml")
    (insertion,) = graph.nodes("ZeroInsertion")
    assert insertion.op == ZeroInsertion((2, 3), trailing=True)
    assert not {"Unsqueeze", "Reshape"} & {n.type for n in graph.nodes()}
    rng = np.random.default_rng(6)
    x, w = (numbers(rng, s, np.float32) for s in (OLD_LAYER.data_shape, OLD_LAYER.filter_shape))
    found = ird.run(graph, {"x": x}, form=None)["y"]
    np.testing.assert_array_equal(found, expected(OLD_LAYER, x, w), strict=True)
    ird.write(graph, tmp_path / "m.xml")
    assert 'type="Unsqueeze"' not in (tmp_path / "m.xml").read_text("utf-8")
    ours, again = (g.nodes("ZeroInsertion") for g in (graph, ird.read(tmp_path / "m.xml")))
    assert [n.op for n in ours] == [n.op for n in again]
    raised = ird.raise_(ird.read(OLD / f"{name}.xml"))
    assert len(list(raised.graph.nodes("ConvolutionBackpropData"))) == 1


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("i8 3 5", "i8 3 4"),  # the new axes
        ("i8 0 0 0 1 0 2", "i8 0 1 0 1 0 1"),  # how many zeros follow
        ("i8 0 0 0 1 0 2", "i8 0 0 0 2 0 1"),
        ("i8 2 2 4 9", "i8 2 2 9 4"),  # the target of the Reshape
    ],
)
def test_the_mark_of_former_versions_is_not_believed(tmp_path: Path, was: str, now: str) -> None:
    for file in OLD.glob("fixed.*"):
        shutil.copy(file, tmp_path)
    weights = tmp_path / "fixed.bin"
    old, new = (np.array(text.split()[1:], np.int64).tobytes() for text in (was, now))
    assert weights.read_bytes().count(old) == 1
    weights.write_bytes(weights.read_bytes().replace(old, new))
    assert not list(ird.read(tmp_path / "fixed.xml", weights).nodes("ZeroInsertion"))
