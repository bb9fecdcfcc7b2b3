"""Names, keys, calls and arguments that public objects do not have: errors with a way out."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.base.hints import hinted, public_names

MODEL = "ir_samples/openvino/segmentation_head.xml"
X = np.zeros((1, 3, 32, 32), np.float32)
GRAPH = ird.infer(MODEL)
UP: Any = GRAPH["up1"]
LOW: Any = ird.lower(MODEL)
PLAN: Any = ird.compile(MODEL)
OUT: Any = PLAN.run(X)
PAGE: Any = ird.graph_page(MODEL)
ATTRIBUTES: list[tuple[Any, str, str]] = [
    (GRAPH, "layers", "write graph.nodes()"),
    (GRAPH, "lower", "write irdeconv.lower(graph)"),
    (GRAPH, "nam", "write graph.info.name"),
    (GRAPH, "degree", "graph.nx is a graph of networkx with that"),
    (UP, "shape", "write node.spec().shape"),
    (UP, "strides", "write node.op.strides"),
    (UP, "weights", "write graph.node(graph.inputs_of(node.id)[1].node).op.data.array()"),
    (UP.op, "padding", "write op.pads_begin"),
    (UP.spec(), "dims", "write spec.shape"),
    (LOW, "nodes", "write lowered.graph.nodes() or lowered.report.layers"),
    (LOW, "costs", "write lowered.report.layers[0].costs"),
    (LOW, "zzz", "it has graph, report"),
    (PLAN, "predict", "write plan.run(inputs)"),
    (PAGE, "save", 'write pathlib.Path("page.html").write_text(page.to_html(), "utf-8")'),
    (ird.simplify(MODEL).report, "removed", "write report.steps"),
    (ird.Diagnostic("E100", "error", "no"), "col", "write diagnostic.column"),
    (OUT, "shape", 'write outputs["mask"].shape'),
    (OUT, "mask", 'write outputs["mask"]'),
    (ird, "load", 'did you mean "read"?'),
]
MISUSES: dict[str, Callable[[], object]] = {
    'there is no output 0; outputs are by name: ["mask"]': lambda: OUT[0],
    "there is no output 'masks'; did you mean \"mask\"?": lambda: OUT["masks"],
    "a Lowered has no keys: ['graph']; write lowered.graph": lambda: LOW["graph"],
    "a LoweringReport has no items: ['form']; write report.form": lambda: LOW.report["form"],
    "a LoweringReport has no items: [0]; write list(report)[0]": lambda: LOW.report[0],
    "a Plan is not a function; write plan.run(inputs)": lambda: PLAN(X),
    'Plan.run has no argument "image"; write inputs={"image": ...}': lambda: PLAN.run(image=X),
    'Limits has no argument "layer"; did you mean "layers"?': lambda: ird.Limits(layer=1),  # type: ignore[call-arg]
    "arguments after to are named: add=, path=": lambda: ird.extract(MODEL, "a", "b", "c"),  # type: ignore[misc]
    "dump takes 1 argument without a name, 2 are given": lambda: ird.dump(MODEL, "o.ird"),  # type: ignore[misc]
    'pathlib.Path(path).write_text(irdeconv.dump(model), "utf-8")': lambda: ird.dump(
        MODEL, "o.ird"
    ),  # type: ignore[misc]
    'for example, names={"old": "new"}': lambda: ird.rename(MODEL, "up1", "up"),  # type: ignore[misc, arg-type]
    "write threads=2": lambda: ird.compile(MODEL, threads="2"),  # type: ignore[arg-type]
    'write only=["phases", "resize"]': lambda: ird.raise_(MODEL, "phases,resize"),
    'ConvolutionBackpropData "up1" is a node, not an id; write node.id': lambda: GRAPH.remove(UP),
    'write graph["up1"].id': lambda: GRAPH.inputs_of("up1"),  # type: ignore[arg-type]
    "there is no node 999": lambda: GRAPH.node(999),
    '"edgetpu" is a target; lower(model, target="edgetpu")': lambda: ird.lower(MODEL, "edgetpu"),
    'give it by name, {"mask": array}': lambda: ird.compare(MODEL, X[:, :2], X),  # type: ignore[arg-type]
    'did you mean "mask"?': lambda: ird.compare(MODEL, {"masks": X[:, :2]}, X),
    'write only="Sigmoid" for layers': lambda: ird.inspect(MODEL, "Sigmoid"),
    "None was given, not an array": lambda: ird.run(MODEL, {"image": None}),
    "take array.real, or np.abs(array)": lambda: ird.run(MODEL, X * 1j),
}


@pytest.mark.parametrize(("value", "name", "hint"), ATTRIBUTES)
def test_unknown_attributes(value: Any, name: str, hint: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(value, name)
    assert str(caught.value).endswith(f"no attribute '{name}'; {hint}")
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize("text", MISUSES)
def test_misuses(text: str) -> None:
    with pytest.raises(ird.UsageError) as caught:
        MISUSES[text]()
    assert text in str(caught.value).replace("\n   = ", "; ")


def test_what_does_not_change() -> None:
    with pytest.raises(AttributeError, match=r"replace_op\(node.id, dataclasses.replace\(op, stri"):
        UP.op.strides = (1, 1)
    with pytest.raises(AttributeError, match=r"dataclasses.replace\(report, form=\.\.\.\)"):
        LOW.report.form = "gemm"
    with pytest.raises(ird.IrdeconvError, match='"up1" is still used by "joined"'):
        GRAPH.remove(UP.id)


@pytest.mark.parametrize("value", [GRAPH, UP, UP.op, UP.spec(), LOW, LOW.report, PLAN, PAGE, OUT])
def test_protocols_are_as_before(value: Any) -> None:
    assert type(copy.copy(value)) is type(value)
    assert type(pickle.loads(pickle.dumps(value))) is type(value)
    assert not hasattr(value, "_ipython_display_")
    assert not hasattr(value, "__array__")
    assert np.array([value], dtype=object).size
    assert "strides" not in dir(UP)


def test_every_public_class_has_hints() -> None:
    classes = [c for c in map(vars(ird).get, ird.__all__) if isinstance(c, type)]
    for cls in classes:
        if not issubclass(cls, Exception) and not getattr(cls, "_is_protocol", False):
            names = cls.__getattr__ if hasattr(cls, "__getattr__") else vars(cls).get("degree")
            assert names or "degree" in vars(cls), cls


def test_an_error_within_a_property_or_a_method_is_shown_as_it_is() -> None:
    @hinted
    class Report:
        @property
        def total(self) -> int:
            return [].size  # type: ignore[attr-defined, no-any-return]

        def add(self, number: int) -> int:
            return number + "1"  # type: ignore[operator]

    assert public_names(Report()) == {"total", "add"}
    with pytest.raises(AttributeError, match="'list' object has no attribute 'size'"):
        _ = Report().total
    with pytest.raises(TypeError, match="unsupported operand"):
        Report().add(1)


def test_notebooks_show_the_cell_and_the_message(capsys: pytest.CaptureFixture[str]) -> None:
    shell = pytest.importorskip("IPython.core.interactiveshell").InteractiveShell()
    cells = [
        "import irdeconv as ird",
        f'm = "{MODEL}"\nird.lower(m, "staked")',
        "ird.read(m).layer",
    ]
    for cell in cells:
        shell.run_cell(cell)
    lines = [line for line in capsys.readouterr().out.splitlines() if line]
    assert [line.strip() for line in lines if not line.startswith(("Cell", "File"))] == [
        'ird.lower(m, "staked")',
        'UsageError: error[E700]: there is no lowering form "staked"; did you mean "stacked"?',
        "ird.read(m).layer",
        "UnknownAttributeError: 'Graph' object has no attribute 'layer'; write graph.nodes()",
    ]


def test_nothing_rewritten_is_not_proved() -> None:
    report = ird.check_certificate(MODEL, MODEL)
    assert not report
    assert not report.differs
    with pytest.raises(ird.FailedError, match="no layer was rewritten"):
        report.raise_if_failed()
