"""Check, infer, lower, run and write OpenVINO-style IR.

    import irdeconv as ird

    ird.validate("net.xml")  # every problem, with its place
    graph, report = ird.lower("net.xml")  # no deconvolutions any more
    outputs = ird.run(graph, {"x": x})

Every function takes a model in any form: a path (`.xml`, `.onnx`, `.json`, `.ird`), the bytes of
a file, a Graph, what another function returned, an `openvino.Model`, an `onnx.ModelProto`. All that
is raised on purpose is an `IrdeconvError`. The names are loaded on first use, so that importing the
package costs next to nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing it from typing would take longer than all the rest here

if TYPE_CHECKING:
    from typing import Any

    from irdeconv.benchmark import BenchReport
    from irdeconv.conformance.manifest import Suite
    from irdeconv.conformance.report import SuiteReport
    from irdeconv.conformance.suite import check_suite, run_suite, suite
    from irdeconv.editing.simplify import SimplificationReport, Simplified
    from irdeconv.errors import (
        ArgumentTypeError,
        Diagnostic,
        ExecutionError,
        FileAccessError,
        InferenceError,
        InputError,
        IrdeconvError,
        LimitError,
        LoweringError,
        NothingToReduceError,
        TargetError,
        UnsupportedError,
        UsageError,
    )
    from irdeconv.explanation import Explanation
    from irdeconv.graph import Graph, Node, Value
    from irdeconv.inspection import Inspection
    from irdeconv.inspection.operations import Operations
    from irdeconv.limits import Limits
    from irdeconv.models import HoldsGraph, ModelLike, OnnxModel, OpenVinoModel
    from irdeconv.onnx_lowering.files import lower_onnx
    from irdeconv.onnx_lowering.rewrite import LoweredOnnx
    from irdeconv.op import Op
    from irdeconv.page.content import PageContent
    from irdeconv.passes.raising import Raised
    from irdeconv.passes.raising.records import RaisingReport
    from irdeconv.passes.records import Lowered, LoweringReport
    from irdeconv.public.blocks import map_blocks
    from irdeconv.public.editing import extract, rename, simplify
    from irdeconv.public.proving import certify, check_certificate
    from irdeconv.public.reading import convert, dump, infer, parse, read, validate
    from irdeconv.public.reducing import reduce
    from irdeconv.public.rewriting import (
        lower,
        raise_,
        to_openvino,
        write,
    )
    from irdeconv.public.running import bench, compile, run
    from irdeconv.public.showing import compare, explain, graph_page, inspect, operations
    from irdeconv.reducing.shrink import Reduced
    from irdeconv.runtime.plan import Plan
    from irdeconv.spec import Interval, Spec
    from irdeconv.targets.profile import Target
    from irdeconv.verify.compare.comparison import Comparison
    from irdeconv.verify.onnx_models.check import check_onnx
    from irdeconv.verify.proof.certificate import Certificate
    from irdeconv.verify.proof.certified import Certificates
    from irdeconv.verify.proof.report import CheckReport

__version__ = "0.1.0"

# What a module of the package has to offer; the imports above say the same to type checkers.
_OFFERS = {
    "benchmark": "BenchReport",
    "conformance.manifest": "Suite",
    "conformance.report": "SuiteReport",
    "conformance.suite": "check_suite run_suite suite",
    "editing.simplify": "SimplificationReport Simplified",
    "errors": """ArgumentTypeError Diagnostic ExecutionError FileAccessError InferenceError
        InputError IrdeconvError LimitError LoweringError NothingToReduceError TargetError
        UnsupportedError UsageError""",
    "explanation": "Explanation",
    "graph": "Graph Node Value",
    "inspection": "Inspection",
    "inspection.operations": "Operations",
    "limits": "Limits",
    "models": "HoldsGraph ModelLike OnnxModel OpenVinoModel",
    "onnx_lowering.files": "lower_onnx",
    "onnx_lowering.rewrite": "LoweredOnnx",
    "op": "Op",
    "page.content": "PageContent",
    "passes.raising": "Raised",
    "passes.raising.records": "RaisingReport",
    "passes.records": "Lowered LoweringReport",
    "public.blocks": "map_blocks",
    "public.editing": "extract rename simplify",
    "public.reading": "convert dump infer parse read validate",
    "public.reducing": "reduce",
    "public.proving": "certify check_certificate",
    "public.rewriting": "lower raise_ to_openvino write",
    "public.running": "bench compile run",
    "public.showing": "compare explain graph_page inspect operations",
    "reducing.shrink": "Reduced",
    "runtime.plan": "Plan",
    "spec": "Interval Spec",
    "targets.profile": "Target",
    "verify.compare.comparison": "Comparison",
    "verify.onnx_models.check": "check_onnx",
    "verify.proof.certificate": "Certificate",
    "verify.proof.certified": "Certificates",
    "verify.proof.report": "CheckReport",
}
_HOMES = {name: module for module, names in _OFFERS.items() for name in names.split()}

__all__ = [
    "ArgumentTypeError",
    "BenchReport",
    "Certificate",
    "Certificates",
    "CheckReport",
    "Comparison",
    "Diagnostic",
    "ExecutionError",
    "Explanation",
    "FileAccessError",
    "Graph",
    "HoldsGraph",
    "InferenceError",
    "InputError",
    "Inspection",
    "Interval",
    "IrdeconvError",
    "LimitError",
    "Limits",
    "Lowered",
    "LoweredOnnx",
    "LoweringError",
    "LoweringReport",
    "ModelLike",
    "Node",
    "NothingToReduceError",
    "OnnxModel",
    "Op",
    "OpenVinoModel",
    "Operations",
    "PageContent",
    "Plan",
    "Raised",
    "RaisingReport",
    "Reduced",
    "SimplificationReport",
    "Simplified",
    "Spec",
    "Suite",
    "SuiteReport",
    "Target",
    "TargetError",
    "UnsupportedError",
    "UsageError",
    "Value",
    "__version__",
    "bench",
    "certify",
    "check_certificate",
    "check_onnx",
    "check_suite",
    "compare",
    "compile",
    "convert",
    "dump",
    "explain",
    "extract",
    "graph_page",
    "infer",
    "inspect",
    "lower",
    "lower_onnx",
    "map_blocks",
    "operations",
    "parse",
    "raise_",
    "read",
    "reduce",
    "rename",
    "run",
    "run_suite",
    "simplify",
    "suite",
    "to_openvino",
    "validate",
    "write",
]


if not TYPE_CHECKING:  # else any name would pass, misspelled ones as well

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module 'irdeconv' has no attribute '{name}'", name=name)
        from importlib import import_module

        value = getattr(import_module(f"irdeconv.{_HOMES[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
