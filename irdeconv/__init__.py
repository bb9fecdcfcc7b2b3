"""Check, infer, lower, run and write OpenVINO-style IR.

    import irdeconv as ird

    ird.validate("net.xml")  # every problem, with its place
    graph, report = ird.lower("net.xml")  # no deconvolutions any more
    outputs = ird.run(graph, {"x": x})

Every function takes a model in any form: a path (`.xml`, `.onnx`, `.json`, `.ird`), the bytes of
a file, a Graph, the result of another function, an `openvino.Model`, an `onnx.ModelProto`. Every
exception that is raised on purpose is an `IrdeconvError`. Names are loaded on first use, so
importing the package takes little time.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing it from typing would take longer than all the rest here

if TYPE_CHECKING:
    from typing import Any

    from irdeconv.base.errors import (
        ArgumentTypeError,
        Diagnostic,
        ExecutionError,
        FailedError,
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
    from irdeconv.base.limits import Limits
    from irdeconv.formats.models import HoldsGraph, ModelLike, OnnxModel, OpenVinoModel
    from irdeconv.formats.onnx_lowering import LoweredOnnx, lower_onnx
    from irdeconv.ir.graph import Graph, Node, Value
    from irdeconv.ir.op import Op
    from irdeconv.ir.spec import Interval, Spec
    from irdeconv.public.editing import extract, rename, simplify
    from irdeconv.public.reading import convert, dump, infer, parse, read, validate
    from irdeconv.public.rewriting import (
        certify,
        check_certificate,
        lower,
        raise_,
        reduce,
        to_openvino,
        write,
    )
    from irdeconv.public.running import bench, compile, map_blocks, run
    from irdeconv.public.showing import compare, explain, graph_page, inspect, operations
    from irdeconv.rewrite.lower_deconv import Lowered, LoweringReport
    from irdeconv.rewrite.targets import Target
    from irdeconv.runtime.bench import BenchReport
    from irdeconv.runtime.plan import Plan
    from irdeconv.runtime.simplify import SimplificationReport, Simplified
    from irdeconv.show.explanation import Explanation
    from irdeconv.show.inspection import Inspection
    from irdeconv.show.operations import Operations
    from irdeconv.show.page import PageContent
    from irdeconv.verify.certificates import Certificate, Certificates, CheckReport
    from irdeconv.verify.comparison import Comparison
    from irdeconv.verify.onnx_check import check_onnx
    from irdeconv.verify.raising import Raised, RaisingReport
    from irdeconv.verify.reduce import Reduced
    from irdeconv.verify.suite import check_suite, run_suite, suite
    from irdeconv.verify.suite_manifest import Suite
    from irdeconv.verify.suite_report import SuiteReport

__version__ = "0.1.0"

# What a module of the package has to offer; the imports above say the same to type checkers.
_OFFERS = {
    "base.errors": """ArgumentTypeError Diagnostic ExecutionError FailedError FileAccessError
        InferenceError InputError IrdeconvError LimitError LoweringError NothingToReduceError
        TargetError UnsupportedError UsageError""",
    "base.limits": "Limits",
    "formats.models": "HoldsGraph ModelLike OnnxModel OpenVinoModel",
    "formats.onnx_lowering": "LoweredOnnx lower_onnx",
    "ir.graph": "Graph Node Value",
    "ir.op": "Op",
    "ir.spec": "Interval Spec",
    "public.editing": "extract rename simplify",
    "public.reading": "convert dump infer parse read validate",
    "public.rewriting": "certify check_certificate lower raise_ reduce to_openvino write",
    "public.running": "bench compile map_blocks run",
    "public.showing": "compare explain graph_page inspect operations",
    "rewrite.lower_deconv": "Lowered LoweringReport",
    "rewrite.targets": "Target",
    "runtime.bench": "BenchReport",
    "runtime.plan": "Plan",
    "runtime.simplify": "SimplificationReport Simplified",
    "show.explanation": "Explanation",
    "show.inspection": "Inspection",
    "show.operations": "Operations",
    "show.page": "PageContent",
    "verify.certificates": "Certificate Certificates CheckReport",
    "verify.comparison": "Comparison",
    "verify.onnx_check": "check_onnx",
    "verify.raising": "Raised RaisingReport",
    "verify.reduce": "Reduced",
    "verify.suite": "check_suite run_suite suite",
    "verify.suite_manifest": "Suite",
    "verify.suite_report": "SuiteReport",
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
    "FailedError",
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
            if name.startswith("_"):
                raise AttributeError(f"module 'irdeconv' has no attribute '{name}'")
            from irdeconv.base.hints import UnknownAttributeError, did_you_mean
            from irdeconv.base.synonyms import VERBS

            meant = {"load": "read", "save": "write"}.get(name) or VERBS.get(name, name)
            near = did_you_mean(meant, __all__) or "dir(irdeconv) lists the names"
            raise UnknownAttributeError("irdeconv", name, lambda: near)
        from importlib import import_module

        value = getattr(import_module(f"irdeconv.{_HOMES[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
