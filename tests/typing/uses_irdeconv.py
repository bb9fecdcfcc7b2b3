"""What a user's type checker learns of the public functions; .ci/run lets mypy check it."""

from pathlib import Path
from typing import Any, assert_type

import numpy as np

import irdeconv as ird
from irdeconv.extension import Array, Op, Spec, op


def results_have_types(path: Path, x: np.ndarray[Any, np.dtype[np.float32]]) -> None:
    """Call every public function with a path, and name what comes back."""
    graph = assert_type(ird.read(path), ird.Graph)
    assert_type(ird.infer(graph), ird.Graph)
    assert_type(ird.convert("net.onnx"), ird.Graph)
    assert_type(ird.extract(path, to=["y"]), ird.Graph)
    assert_type(ird.simplify(graph), ird.Simplified)
    assert_type(ird.raise_(graph), ird.Raised)
    assert_type(ird.dump(graph), str)
    assert_type(ird.parse("graph"), ird.Graph)
    assert_type(ird.compile(graph), ird.Plan)
    assert_type(ird.run(path, {"x": x}), dict[str, Array])
    assert_type(ird.inspect(path), ird.Inspection)
    assert_type(ird.operations(), ird.Operations)
    assert_type(ird.graph_page(graph), ird.PageContent)
    assert_type(ird.__version__, str)


def results_of_lowering_have_types(path: Path) -> None:
    """Unpack what `lower` returns, prove it, write it."""
    lowered = assert_type(ird.lower(path), ird.Lowered)
    graph, report = lowered
    assert_type(graph, ird.Graph)
    assert_type(report, ird.LoweringReport)
    assert_type(ird.check_certificate(path, graph), ird.CheckReport)
    assert_type(ird.compare(path, graph), ird.Comparison)
    ird.write(lowered, path.with_suffix(".lowered.xml"))


def diagnostics_have_types(path: str) -> list[str]:
    """Errors carry diagnostics, each with its place."""
    found = assert_type(ird.validate(path), list[ird.Diagnostic])
    try:
        ird.read(path)
    except ird.FileAccessError as error:
        assert_type(error.errno, int | None)
        assert_type(error.exit_code, int)
    except ird.IrdeconvError as error:
        assert_type(error.diagnostics, list[ird.Diagnostic])
        assert_type(error.text, str)
    return [d.code for d in found]


def mistakes_are_told(path: Path) -> None:
    """A comment that silences nothing is an error, so each of these has to be one."""
    ird.lower(path, fom="gemm")  # type: ignore[call-arg]
    ird.read(3.5)  # type: ignore[arg-type]
    ird.lowr(path)  # type: ignore[attr-defined]
    graph: str = ird.read(path)  # type: ignore[assignment]
    print(graph)


@op("Twice", "mine")
class Twice(Op):
    """2 * x."""

    def infer(self, x: Spec) -> Spec:
        """Return the spec of the input."""
        return x

    def evaluate(self, x: Array) -> Array:
        """Return the input, doubled."""
        return x + x
