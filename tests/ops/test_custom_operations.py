"""Operations of users, and names that nobody has seen."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.base.tables import escaped_json, one_line, printable
from irdeconv.cli.main import main
from irdeconv.cli.model import read_file
from irdeconv.cli.options import RECORDS
from irdeconv.cli.verbs import VERBS
from support.commands import Capture, Patch, answer
from support.ir_edit import unmark
from support.rows import each_row
from support.scripts import tool

# Operations that irdeconv does not know: kept as they are, no reason to refuse the rest.

FILTER = np.arange(18, dtype=np.float32).reshape(2, 1, 3, 3)
BLUR = """<layer id="1" name="blur" type="Blur" version="mine" device="NPU">
<data radius="3" zeta="1.50" mode="soft"/>
<rt_info><attribute name="kept" version="7"/></rt_info>
<table kind="custom"><row v="1"/></table>
<input><port id="0" precision="FP32"><dim>1</dim><dim>2</dim><dim>4</dim><dim>4</dim></port></input>
<output>
<port id="1" precision="FP32" names="blurred"><dim>1</dim><dim>2</dim><dim>4</dim><dim>4</dim>
</port><port id="2" precision="I64"><dim>3</dim></port></output></layer>"""
MODEL = """<?xml version="1.0"?>
<net name="custom" version="11"><layers>
<layer id="0" name="x" type="Parameter" version="opset1">
<data shape="1,2,4,4" element_type="f32"/>
<output>
<port id="0" precision="FP32"><dim>1</dim><dim>2</dim><dim>4</dim><dim>4</dim></port></output>
</layer>
{blur}
<layer id="2" name="w" type="Const" version="opset1">
<data element_type="f32" shape="2,1,3,3" offset="0" size="72"/>
<output>
<port id="0" precision="FP32"><dim>2</dim><dim>1</dim><dim>3</dim><dim>3</dim></port></output>
</layer>
<layer id="3" name="deconv" type="{deconvolution}" version="{version}">
<data strides="2,2" pads_begin="0,0" pads_end="0,0" dilations="1,1" auto_pad="explicit"/>
<input><port id="0"/><port id="1"/></input><output><port id="2" precision="FP32"/></output></layer>
<layer id="4" name="relu" type="ReLU" version="opset1"><data vendor_hint="fast"/>
<input><port id="0"/></input><output><port id="1" precision="FP32"/></output></layer>
<layer id="5" name="y" type="Result" version="opset1"><input><port id="0"/></input></layer>
<layer id="6" name="n" type="Result" version="opset1"><input><port id="0"/></input></layer>
</layers><edges>
<edge from-layer="0" from-port="0" to-layer="1" to-port="0"/>
<edge from-layer="1" from-port="1" to-layer="3" to-port="0"/>
<edge from-layer="2" from-port="0" to-layer="3" to-port="1"/>
<edge from-layer="3" from-port="2" to-layer="4" to-port="0"/>
<edge from-layer="4" from-port="1" to-layer="5" to-port="0"/>
<edge from-layer="1" from-port="2" to-layer="6" to-port="0"/>
</edges></net>"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return written(tmp_path)


def written(folder: Path, **changes: str) -> Path:
    usual = {"blur": BLUR, "deconvolution": "ConvolutionBackpropData", "version": "opset1"}
    path = folder / "m.xml"
    path.write_text(MODEL.format(**usual | changes))
    path.with_suffix(".bin").write_bytes(FILTER.tobytes())
    return path


def layer(path: Path, name: str) -> str:
    """The XML of a layer without its id and white space between elements."""
    found = re.search(rf'<layer id="\d+" (name="{name}".*?</layer>)', path.read_text(), re.DOTALL)
    assert found
    return re.sub(r"\s*/>", "/>", re.sub(r">\s+", ">", found[1]))


def test_the_layer_is_written_as_it_was_read(model: Path, tmp_path: Path) -> None:
    graph = ird.read(model)
    low = ird.lower(graph)
    out = tmp_path / "out.xml"
    ird.write(low.graph, out)
    before, after = layer(model, "blur"), layer(out, "blur")
    for part in (
        'name="blur" type="Blur" version="mine" device="NPU"',
        '<data radius="3" zeta="1.50" mode="soft"/>',
        '<rt_info><attribute name="kept" version="7"/></rt_info>',
        '<table kind="custom"><row v="1"/></table>',
        '<port id="2" precision="I64"><dim>3</dim></port>',
        'names="blurred"',
    ):
        assert part in before
        assert part in after
    assert len(before) == len(after)
    assert '<data vendor_hint="fast"/>' in layer(out, "relu")
    assert not list(low.graph.nodes("ConvolutionBackpropData"))
    verdict = ird.check_certificate(ird.infer(graph), read_file(str(out)))
    assert verdict.equal
    assert verdict.layers[0].proved == "the size [1, 2, 4, 4]"


def test_shapes_are_taken_as_declared(model: Path) -> None:
    (found,) = ird.lower(ird.read(model)).report.diagnostics
    assert found.code == "W204"
    assert 'Blur "blur"' in found.message
    rows = {r["name"]: r for r in answer("infer", model, "--format", "json").json["tensors"]}
    assert rows["blur"]["status"] == "declared"
    assert rows["deconv"]["inferred"] == "f32[1,1,9,9]"


def test_what_needs_the_operation_names_it(model: Path) -> None:
    assert 'warning[W204]: Blur "blur"' in answer("validate", model).out
    assert "cannot execute Blur (mine), layer" in answer("run", model, code=4).err


@each_row("kind", [("ConvTranspose", "opset1"), ("ConvolutionBackpropData", "my")])
def test_a_deconvolution_of_an_unknown_version_is_refused(
    kind: tuple[str, str], tmp_path: Path
) -> None:
    """It may mean anything; leaving it as it is would be no lowering."""
    path = written(tmp_path, deconvolution=kind[0], version=kind[1])
    with pytest.raises(ird.InputError, match="E214"):
        ird.read(path)


def extension(ov: Any) -> Any:
    """An operation of an extension that doubles its input."""

    class Blur(ov.Op):  # type: ignore[name-defined,misc]
        def __init__(self, inputs: Any = None) -> None:
            super().__init__(self)
            self.radius = 3
            if inputs is not None:
                self.set_arguments(inputs)
                self.constructor_validate_and_infer_types()

        def validate_and_infer_types(self) -> None:
            kind, shape = self.get_input_element_type(0), self.get_input_partial_shape(0)
            self.set_output_type(0, kind, shape)

        def clone_with_new_inputs(self, inputs: Any) -> Any:
            return Blur(inputs)

        def has_evaluate(self) -> bool:
            return True

        def evaluate(self, outputs: Any, inputs: Any) -> bool:
            outputs[0].data[:] = inputs[0].data * 2
            return True

        def visit_attributes(self, visitor: Any) -> bool:
            visitor.on_attributes({"radius": self.radius})
            return True

    return Blur


@pytest.mark.oracles
def test_openvino_with_the_extension_computes_the_same(tmp_path: Path) -> None:
    ov = pytest.importorskip("openvino")
    opset = pytest.importorskip("openvino.opset8")

    blur = extension(ov)
    x = opset.parameter([1, 2, 4, 4], name="x")
    made = ov.Model([opset.convolution_backprop_data(blur([x]), FILTER, [2, 2])], [x])
    before, after = tmp_path / "before.xml", tmp_path / "after.xml"
    ov.serialize(made, before)
    ird.write(ird.lower(ird.read(before)).graph, after)
    core = ov.Core()
    core.add_extension(blur)
    data = np.random.default_rng(0).integers(-4, 5, (1, 2, 4, 4)).astype(np.float32)
    results = [core.compile_model(core.read_model(f), "CPU")([data])[0] for f in (before, after)]
    assert results[0].any()
    assert np.array_equal(*results)


def test_a_certificate_looks_at_versions_children_and_bodies(tmp_path: Path) -> None:
    """The body's constant lies elsewhere in the lowered file's weights; its bytes count."""
    body = '<body><layers><layer id="0" name="c" type="Const" version="opset1">'
    body += '<data element_type="f32" shape="1" offset="8" size="4"/>'
    body += '<output><port id="0" precision="FP32"><dim>1</dim></port></output></layer>'
    body += '<layer id="1" name="r" type="Result" version="opset1"><input><port id="0"/></input>'
    body += "</layer></layers><edges>"
    body += '<edge from-layer="0" from-port="0" to-layer="1" to-port="0"/></edges></body>'
    path = written(tmp_path, blur=BLUR.replace("</layer>", f"{body}</layer>"))
    lowered = tmp_path / "low.xml"
    ird.write(ird.lower(path, "stacked").graph, lowered)
    text, weights = lowered.read_text(), lowered.with_suffix(".bin").read_bytes()
    assert ird.check_certificate(path, lowered).equal
    found = re.search(r'shape="1" offset="(\d+)" size="4"', text)
    assert found is not None

    for old, new, reason in (
        ('version="mine"', 'version="yours"', "its version differs"),
        ('row v="1"', 'row v="2"', "its body differs"),
    ):
        assert old in text
        lowered.write_text(text.replace(old, new))
        assert reason in str(ird.check_certificate(path, lowered))
    lowered.write_text(text)
    at = int(found[1])
    changed = weights[:at] + np.float32(99).tobytes() + weights[at + 4 :]
    lowered.with_suffix(".bin").write_bytes(changed)
    unmark(lowered)
    assert not ird.check_certificate(path, lowered).equal


def test_what_a_file_declares_of_an_unknown_operation_is_assumed(tmp_path: Path) -> None:
    path, lowered = written(tmp_path), tmp_path / "low.xml"
    ird.write(ird.lower(path, "stacked").graph, lowered)
    text = 'Blur "blur" computes f32 [1, 2, 4, 4], as its file declares'
    report, made = ird.check_certificate(path, lowered), ird.certify(path, lowered)
    assert report.equal
    assert not any((report, report.layers[0], made, made[0]))
    verdict = "1 of 1 rewritten layers equal if what is assumed is so, 2 others unchanged"
    assert report.verdict == verdict
    assert made.verdict == "1 of 1 layer proved if what is assumed is so"
    said = answer("check-certificate", path, lowered, code=7).out.splitlines()
    assert said[-1] == "proved only if what is assumed is so, which the file alone says"
    assert main(["lower", str(path), "--form", "stacked", "--certify"]) == 7
    assert report.layers[0].assumed == report.assumed == made[0].assumed == made.assumed == (text,)
    for shown in (report, made):
        assert str(shown).count(f"assuming that {text}") == 1
        assert text.replace('"', "&quot;") in shown._repr_html_()
    assert report.to_dict()["assumed"] == json.loads(made.to_json())["assumed"] == [text]
    # In a graph there is no file, but the same is not known.
    graphs = ird.infer(path), ird.infer(lowered)
    assert ird.check_certificate(*graphs).assumed == (text,)


def test_an_unknown_operation_beside_what_was_rewritten_needs_no_assumption(tmp_path: Path) -> None:
    path, lowered = written(tmp_path), tmp_path / "low.xml"
    edge = '<edge from-layer="{}" from-port="{}" to-layer="3" to-port="0"/>'
    text = path.read_text()
    assert edge.format(1, 1) in text
    path.write_text(text.replace(edge.format(1, 1), edge.format(0, 0)))
    ird.write(ird.lower(path, "stacked").graph, lowered)
    report = ird.check_certificate(path, lowered)
    assert report.passed
    assert report.assumed == ()


OPERATIONS = {  # by what is wrong with them
    "E206": ["opset1.Foo", "opst1.Foo"],
    "E207": ["opset1.Acosh", "opset2.ShuffleChannels"],
    "E214": ["opst1.Abs"],
    "W204": ["mine.Foo", "opset77.Foo", "opset18.Abs"],
}


@each_row(("operation", "code"), [(each, code) for code in OPERATIONS for each in OPERATIONS[code]])
@each_row("needed", [True, False])
def test_the_text_form_is_judged_as_the_file_that_is_written_from_it(
    operation: str, code: str, needed: bool, tmp_path: Path
) -> None:
    text = f"""graph 1 "m" {{
  %0 "x" = opset1.Parameter() {{element_type = f32, shape = [2]}} : f32[2]
  %1 "a" = opaque {operation}(%0) {{declared = [f32[2]]}} : f32[2]
  %2 "b" = opaque {operation}(%1) {{declared = [f32[2]]}} : f32[2]
  %3 "y" = opset1.Result(%{2 if needed else 0}) : f32[2]
}}
"""
    here, there = tmp_path / "m.ird", tmp_path / "m.xml"
    here.write_text(text)
    ird.write(ird.read(here), there)
    found = [{(d.code, d.message) for d in ird.validate(f)} for f in (here, there)]
    assert found[0] == found[1] if needed else found[0] <= found[1]
    assert {c for c, _ in found[0]} == {code if needed else "W201"}


def test_the_text_form_has_no_layer_without_the_details_that_its_reader_needs(
    tmp_path: Path,
) -> None:
    path = tmp_path / "m.ird"
    path.write_text('graph 1 "m" {\n  %0 "a" = opaque opset1.Abs() {}\n'
                    '  %1 "y" = opset1.Result(%0)\n}\n')  # fmt: skip
    assert [d.code for d in ird.validate(path)] == ["E206"]
    path.write_text(path.read_text().replace("opset1.Abs", "my.Deconvolution"))
    with pytest.raises(ird.InputError, match="without its details"):
        ird.read(path)


# One model with hostile names through all outputs of all verbs: no character of them gets out.

# Right-to-left override, isolate, marks, zero-width characters, a tag, a line separator, a hyphen.
UNSEEN = "\u202e\u2066\u200e\u061c\u200b\u2060\ufeff\U000e0041\u2028\xad\x7f\x9b"
NAME = f"de{UNSEEN[:-2]}conv<script>\"'&"
BAD = re.compile(f"[{UNSEEN}\x00-\x08\x0b-\x1f\ud800-\udfff]")
SAMPLE = "ir_samples/openvino/deconv_3x3_to_5x5.xml"

reading = tool("fuzzing.cases").reading
_NAMES = {"m": "M", "o": "out", "f": "stacked"}
# Of each verb that reads a model those with one option or format; and those with several.
COMMANDS = [
    *(c.format(**_NAMES) for w in (False, True) for c in sorted(reading(writes=w))),
    "lower M -o out.xml --certify c.json --report p.html",
    "run M --dump all --dump-dir d",
    "run M nothing=ones",
    "run M --dump all -o all.npz",
    "bench M --time 0.01",
    "bench M --time 0.01 --save s.json",
    "compare M M --format json",
    "compare M M --report p.html",
    "extract M --to LAYER -o out.xml",
    "rename M LAYER=new -o out.xml",
    "reduce M --check false -o out.xml",
    "validate BROKEN",
    "validate BROKEN --format junit",
    "run BROKEN",
    "explain M nothing",
]


def unseen_model(path: Path, *, broken: bool = False) -> Path:
    """Write the sample with hostile names of layers and tensors."""
    text = Path(SAMPLE).read_text("utf-8")
    name = "".join(f"&#{ord(c)};" for c in NAME)
    text = text.replace('"deconv"', f'"{name}"').replace('"x"', f'"x{name}"')
    text = re.sub('<net name="[^"]*"', f'<net name="n{name}"', text)
    if broken:
        text = text.replace('strides="', 'strides="&#8238;')
    path.write_text(text, "utf-8")
    Path(path.with_suffix(".bin")).write_bytes(Path(SAMPLE).with_suffix(".bin").read_bytes())
    return path


@pytest.mark.parametrize("command", COMMANDS)
def test_nothing_gets_out(
    command: str, tmp_path: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    places = {
        "M": unseen_model(tmp_path / "m.xml"),
        "BROKEN": unseen_model(tmp_path / "b.xml", broken=True),
    }
    before = set(tmp_path.iterdir())
    monkeypatch.chdir(tmp_path)
    words = {**{k: v.name for k, v in places.items()}, "LAYER": NAME}
    assert main([words.get(w, w.replace("LAYER", NAME)) for w in command.split()]) != 70
    said = capsys.readouterr()
    assert not BAD.search(said.out + said.err)
    for path in set(tmp_path.rglob("*")) - before:
        assert not BAD.search(str(path))
        if path.suffix in (".html", ".json", ".svg"):
            assert not BAD.search(path.read_text("utf-8"))


def test_every_verb_that_reads_models_is_here() -> None:
    asked = {c.split()[0] for c in COMMANDS} | {"suite", "check-certificate", "batch"}
    assert {v for v in VERBS if RECORDS[v].models} <= asked


def test_notebooks_and_errors(tmp_path: Path) -> None:
    graph = ird.infer(ird.read(unseen_model(tmp_path / "m.xml")))
    shown = [graph, ird.inspect(graph), ird.lower(graph), ird.explain(graph)]
    shown += [*graph.nodes(), *ird.validate(unseen_model(tmp_path / "b.xml", broken=True))]
    for each in shown:
        assert not BAD.search(repr(each) + str(each) * (not isinstance(each, ird.Graph)))
        assert not BAD.search(getattr(each, "_repr_html_", lambda: "")() or "")
    with pytest.raises(ird.IrdeconvError) as e:
        ird.run(graph, {f"x{UNSEEN}": None})
    assert not BAD.search(str(e.value))


def test_what_programs_read_holds_the_names(tmp_path: Path, capsys: Capture) -> None:
    path = str(unseen_model(tmp_path / "m.xml"))
    assert main(["inspect", path, "--format", "json"]) == 0
    assert NAME in json.dumps(json.loads(capsys.readouterr().out), ensure_ascii=False).replace(
        '\\"', '"'
    )
    graph = ird.read(path)
    assert NAME in [n.name for n in ird.parse(ird.dump(graph)).nodes()]


def test_escapes() -> None:
    assert printable("a\tb\nc\x1b\u202e\U000e0041") == r"a" + "\tb\nc" + r"\x1b\u202e\U000e0041"
    assert one_line("a\tb\n") == r"a\tb\n"
    text = json.dumps(UNSEEN + "\ud800", ensure_ascii=False)
    assert not BAD.search(escaped_json(text))
    assert json.loads(escaped_json(text)) == UNSEEN + "\ud800"
