"""What objects look like in a console and a notebook, and that copies are real ones."""

import atexit
import copy
import pickle
import re
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.base.markup import MOST_ROWS, html_table, plain
from irdeconv.ir.constant import ArrayData
from irdeconv.ir.graph import Graph, Info, Value
from irdeconv.ir.op import REGISTRY
from irdeconv.ops.basic import Parameter, Result
from support.runtime_truth import outputs

HEAD = Path("ir_samples/openvino/segmentation_head.xml")
IMAGE = np.full((1, 3, 32, 32), 0.25, np.float32)
EVIL = '<script>alert("x")</script>\n\u202e'


def head() -> ird.Graph:
    return ird.infer(HEAD)


def evil() -> ird.Graph:
    """A graph whose names would break a page and a line."""
    g = Graph(Info(name=EVIL))
    g.add(Parameter((2,), ird.Spec.of(IMAGE).dtype), name=EVIL)
    g.add(REGISTRY["ReLU", "opset1"](), [Value(0)], name=EVIL + "1", origins=(EVIL,))
    g.add(Result(), [Value(1)], name=EVIL + "2")
    return ird.infer(g)


@cache
def made_suite() -> ird.Suite:
    folder = Path(tempfile.mkdtemp(), "vectors")
    atexit.register(shutil.rmtree, folder.parent)
    return ird.suite(folder, only=["openvino-edge-kernel-1"])


SHOWN: dict[str, tuple[Callable[[ird.Graph, Any], Any], str]] = {
    "graph": (
        lambda g, x: g,
        '<Graph "segmentation_head": 19 layers, 1 input image f32[1,3,32,32], '
        "1 output mask f32[1,2,32,32]>",
    ),
    "node": (
        lambda g, x: next(iter(g.nodes("Sigmoid"))),
        r'<Node %\d+ "\w+": Sigmoid of opset1 -> f32\[1,2,32,32\]>',
    ),
    "spec": (lambda g, x: g.parameters[0].spec(), r"Spec\(f32\[.*\]\)"),
    "lowered": (
        lambda g, x: ird.lower(g, "phases"),
        '<Lowered "[^"]*": [02] deconvolutions of [02] lowered as phases, .*layers .*>|'
        '<Lowered "[^"]*": no deconvolutions, nothing to lower, .*>',
    ),
    "report": (lambda g, x: ird.lower(g).report, "<LoweringReport: .*>"),
    "raised": (lambda g, x: ird.raise_(ird.lower(g)), '<Raised "[^"]*": .*, .* layers .*>'),
    "plan": (lambda g, x: ird.compile(g), '<Plan "[^"]*": [18] steps?, .*, . threads?>'),
    "inspection": (lambda g, x: ird.inspect(g), '<Inspection "[^"]*": .* layers .*>'),
    "comparison": (lambda g, x: ird.compare(g, ird.lower(g), x), "<Comparison: .*the same.*>|<.*>"),
    "certificates": (lambda g, x: ird.certify(g, ird.lower(g)), "<Certificates: .*>"),
    "check": (lambda g, x: ird.check_certificate(g, ird.lower(g)), "<CheckReport: .*>"),
    "reduced": (
        lambda g, x: ird.reduce(g, lambda graph, inputs: True, x),
        "<Reduced: .* layers? -> .*: .*, .* checks?>",
    ),
    "page": (lambda g, x: ird.graph_page(g), '<PageContent "[^"]*": 0 changes>'),
    "explanation": (lambda g, x: ird.explain(g), "<Explanation: [02] deconvolutions, .*>"),
    "bench": (
        lambda g, x: ird.bench(g, x, rounds=1, iterations=1),
        '<BenchReport "[^"]*": .* ms.*>',
    ),
    "simplified": (
        lambda g, x: ird.simplify(ird.lower(g)),
        '<Simplified "segmentation_head": 27 layers became 2[0-9]: .*>',
    ),
    "simplification": (
        lambda g, x: ird.simplify(g).report,
        "<SimplificationReport: 19 layers became 19: nothing to take away>",
    ),
    "suite": (lambda g, x: made_suite(), '<Suite "[^"]*vectors": 1 case>'),
    "case of a suite": (
        lambda g, x: made_suite().cases[0],
        '<StoredCase "openvino-edge-kernel-1": .*>',
    ),
    "suite report": (
        lambda g, x: ird.check_suite(made_suite().folder, {}),
        "<SuiteReport: 0 of 1 case passed, 1 missing>",
    ),
    "case report": (
        lambda g, x: ird.check_suite(made_suite().folder, {}).cases[0],
        '<CaseReport "openvino-edge-kernel-1": missing, there is no result>',
    ),
}
PICTURE = {"svg", "title", "desc", "style", "g", "rect", "path", "circle", "text"}


class Page(HTMLParser):
    """Which tags a piece of HTML has, and that they close."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        assert not {name for name, _ in attrs} & {"src", "href", "onload", "onclick", "onerror"}
        self.tags.add(tag)
        if tag != "wbr":  # has no end
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("kind", SHOWN)
@pytest.mark.parametrize("graph", [head, evil])
def test_one_line_and_a_table(graph: Callable[[], ird.Graph], kind: str) -> None:
    make, pattern = SHOWN[kind]
    g = graph()
    if graph is evil and kind == "node":
        make = lambda g, x: g.node(1)  # noqa: E731
    shown = make(g, IMAGE if graph is head else np.ones(2, np.float32))
    text = repr(shown)
    assert text.isprintable(), "it would not stay on a line"
    assert len(text) < 300
    if graph is head:
        assert text == pattern or re.fullmatch(pattern, text), text
    if kind not in ("spec", "page", "case of a suite", "case report"):  # rows of tables
        page = Page(shown._repr_html_())
        picture = PICTURE if hasattr(shown, "_repr_svg_") else set()
        assert page.tags <= picture | {"div", "p", "b", "table", "tr", "td", "th", "pre", "wbr"}


def test_a_page_is_in_a_frame() -> None:
    shown = ird.graph_page(evil())._repr_html_()
    assert Page(shown).tags == {"iframe"}


def test_layers_by_name_and_results_that_raise() -> None:
    g = head()
    assert g["up1"].type == "ConvolutionBackpropData"
    assert ("up1" in g, "up9" in g, 3 in g, len(list(g))) == (True, False, True, len(g))
    with pytest.raises(ird.UsageError, match='no layer "upp"; did you mean "up'):
        g["upp"]
    ird.compare(g, g, IMAGE).raise_if_failed()
    with pytest.raises(ird.FailedError, match="different: first at"):
        ird.compare(g, {"mask": np.zeros((1, 2, 32, 32))}, IMAGE).raise_if_failed()


def test_hints_name_arguments_of_python() -> None:
    with pytest.raises(ird.UsageError, match=r'infer\(model, {"image": \[1,3,64,64\]}\)'):
        ird.run(head(), np.zeros((1, 3, 64, 64)))
    with pytest.raises(ird.LimitError, match="more with max_memory="):
        ird.compile(head(), max_memory=10)
    with pytest.raises(ird.UsageError, match='only="--only"'):
        ird.inspect(head(), only="--only")


WRONG = {
    'from_="no": the model has no such layer': lambda g, _: ird.extract(g, "no"),
    'only="no": no layer to lower': lambda g, _: ird.lower(g, only="no"),
    'pattern="zz" changes no name': lambda g, _: ird.rename(g, pattern=("zz", "b")),
    "no regular expression and replacement": lambda g, _: ird.rename(g, pattern=("m", r"\2")),
    r"\('m', 3\): no regular expression": lambda g, _: ird.rename(g, pattern=("m", 3)),
    "expected 2, got 1": lambda g, _: ird.rename(g, pattern=("m",)),
    "xxxx.* is neither a file nor": lambda g, _: ird.compare(g, 5000 * "x", IMAGE),
    "tolerance is a:": lambda g, _: ird.compare(g, g, IMAGE, tolerance={"mask": "a"}),
    "iterations is 0: at least 1$": lambda g, _: ird.bench(g, IMAGE, iterations=0),
    'check="true": it has no {}': lambda g, _: ird.reduce(g, check="true"),
    '(?s)a file nor.*did you mean "openvino"': lambda g, _: ird.compare(g, "openvno", IMAGE),
    "tolerance is -1": lambda g, _: ird.compare(g, g, IMAGE, tolerance=-1),
    "the second side is an array without a name": lambda g, _: ird.compare(g, IMAGE, IMAGE),
    r"as in \[1,3,64,64\]; ": lambda g, _: ird.infer(g, {"image": [1, 3]}),
    "(?s)no target .tpu.*; or name a .toml": lambda g, _: ird.lower(g, target="tpu-9"),
    "(?s)are they swapped.*": lambda g, _: ird.check_certificate(ird.lower(g), g).raise_if_failed(),
    '(?s)"Deconv".*did you mean "ConvolutionB': lambda g, _: ird.inspect(g, only="Deconv"),
    "a list has an array for each input": lambda g, _: ird.run(g, IMAGE.tolist()),
    r"transpose\(\[2, 0, 1\]\)\[None\]": lambda g, _: ird.run(g, IMAGE[0].transpose(1, 2, 0)),
    "it holds no numbers": lambda g, _: ird.run(g, IMAGE[:0]),
    "the text of a model": lambda *_: ird.read('<?xml version="1.0"?>\n<net></net>'),
    "not an ONNX model but an OpenVINO IR": lambda *_: ird.lower_onnx(b"<net>"),
    "no array is named like": lambda g, p: ird.compare(g, _saved(p, image=IMAGE), IMAGE),
    '(?s)tune=".*" would overwrite': lambda g, p: ird.compile(g, tune=_saved(p, ".json")),
}


def _saved(folder: Path, suffix: str = ".npz", **arrays: np.ndarray) -> Path:
    path = folder / f"saved{suffix}"
    np.savez(path, **arrays) if arrays else path.write_text('{"a": 1}')
    return path


@pytest.mark.parametrize("message", WRONG)
def test_mistakes_in_python(message: str, tmp_path: Path) -> None:
    with pytest.raises(ird.IrdeconvError, match=message):
        WRONG[message](head(), tmp_path)


def test_a_suite_that_passes_is_its_verdict() -> None:
    folder = made_suite().folder
    passed = ird.check_suite(folder, ird.run_suite(folder, "irdeconv"))
    assert passed
    assert passed._repr_html_() == "<p><b>1 of 1 case passed</b></p>"
    assert not ird.check_suite(folder, {})


def test_tables_are_cut_and_say_so() -> None:
    rows = [(str(i), i) for i in range(MOST_ROWS + 5)]
    page = html_table("t", ("name", "number"), rows, ("number",))
    assert page.count("<tr>") == MOST_ROWS + 2
    assert "... 5 more" in page
    assert "more" not in html_table("t", ("name", "number"), rows[:3])


def test_plain_text_stays_as_it_is() -> None:
    assert plain("conv1/relu ü") == "conv1/relu ü"
    assert plain("a\nb\u202e") == "a\\nb\\u202e"


def test_values_of_a_spec_are_shown_shortly() -> None:
    assert repr(ird.Spec.of(np.arange(3))) == "Spec(i64[3] = [0, 1, 2])"
    assert repr(ird.Spec.of(np.arange(9))) == "Spec(i64[9] = [0, 1, 2, 3, 4, 5, 6, 7, ...])"
    assert repr(ird.Spec(None, None)) == "Spec(?[...])"


def test_graphs_that_are_being_built_are_shown() -> None:
    g = Graph()
    assert repr(g) == '<Graph "model": 0 layers, 0 inputs, 0 outputs>'
    g.add(Result(), name="out")
    assert repr(g).startswith('<Graph "model": 1 layer')


# Truth -------------------------------------------------------------------------------------------


def test_nothing_proved_is_no_yes() -> None:
    g = head()
    low = ird.lower(g)
    assert ird.certify(g, low)
    assert ird.check_certificate(g, low)
    assert ird.check_certificate(g, low, ird.certify(g, low))
    for nothing in (ird.certify(g, g), ird.check_certificate(g, g)):
        assert not nothing
    constants = [n for n in low.graph.nodes("Const") if n.origins]
    weights = next(n for n in constants if n.op.element_type.name == "f32")
    wrong = _with_another(low.graph, weights.id)
    assert not ird.certify(g, wrong)
    assert len(ird.certify(g, wrong)) == 2
    assert not ird.check_certificate(g, wrong)
    # With other pads nothing fits any more: what was inferred before is not believed.
    pads = next(n for n in constants if n.op.element_type.name == "i64")
    with pytest.raises(ird.InferenceError):
        ird.check_certificate(g, _with_another(low.graph, pads.id))


def _with_another(graph: Graph, constant: int) -> Graph:
    out = graph.copy()
    op: Any = out.node(constant).op
    data = ArrayData.of(-op.data.array() - 1, op.element_type)
    out.replace_op(constant, type(op)(**{**vars(op), "data": data}))
    return out


def test_certificates_are_kept_in_a_file(tmp_path: Path) -> None:
    g = head()
    low = ird.lower(g)
    made = ird.certify(g, low)
    file = tmp_path / "proof.json"
    file.write_text(made.to_json(), "utf-8")
    assert ird.Certificates.from_json(file.read_text("utf-8")) == made
    assert ird.check_certificate(g, low, file)
    for text, problem in (("[1]", "this is no"), ("{}", "this is no"), ("3", "this is no")):
        with pytest.raises(ValueError, match=problem):
            ird.Certificates.from_json(text)


def pickled(made: Any) -> Any:
    return pickle.loads(pickle.dumps(made))


COPIES = pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, pickled])


# Copies ------------------------------------------------------------------------------------------


@COPIES
def test_a_copy_of_a_graph_is_a_graph_of_its_own(again: Callable[[Any], Any]) -> None:
    g = head()
    other = again(g)
    np.testing.assert_allclose(ird.run(other, IMAGE)["mask"], ird.run(g, IMAGE)["mask"], rtol=1e-6)
    other.remove(other.results[0].id)
    other.node(0).name = "changed"
    other.info.name = "changed"
    assert (len(g), g.node(0).name, g.info.name) == (19, "image", "segmentation_head")


@COPIES
def test_a_copy_of_a_plan_runs_by_itself(again: Callable[[Any], Any]) -> None:
    plan = ird.compile(HEAD, threads=1, exact=True)
    other = again(plan)
    assert (other.exact, other.settings.team.threads) == (True, 1)
    assert other.settings.team is not plan.settings.team
    np.testing.assert_array_equal(other.run(IMAGE)["mask"], plan.run(IMAGE)["mask"])


def test_results_are_pickled() -> None:
    g = head()
    low = ird.lower(g)
    for made in (low, ird.raise_(low), ird.inspect(g), ird.certify(g, low), ird.explain(g)):
        assert repr(pickled(made)) == repr(made)


def test_every_operation_is_pickled() -> None:
    for cls in set(REGISTRY.values()):
        assert pickled(cls) is cls


# OpenVINO ----------------------------------------------------------------------------------------


@pytest.mark.oracles
@pytest.mark.parametrize("form", [None, "zero-insertion", "stacked"])
def test_a_model_for_openvino_without_a_file(form: str | None) -> None:
    g = head() if form is None else ird.lower(HEAD, form).graph
    model = ird.to_openvino(g)
    (out,) = outputs(model, IMAGE)
    np.testing.assert_allclose(out, ird.run(HEAD, IMAGE)["mask"], rtol=1e-5, atol=1e-6)
    back = ird.run(model, IMAGE)["mask"]
    np.testing.assert_allclose(back, ird.run(HEAD, IMAGE)["mask"], rtol=1e-5, atol=1e-6)


def test_without_openvino(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "openvino", None)
    with pytest.raises(ird.UnsupportedError, match="needs the package openvino"):
        ird.to_openvino(HEAD)
