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

    from irdeconv.base.errors import ArgumentTypeError as ArgumentTypeError
    from irdeconv.base.errors import Diagnostic as Diagnostic
    from irdeconv.base.errors import ExecutionError as ExecutionError
    from irdeconv.base.errors import FailedError as FailedError
    from irdeconv.base.errors import FileAccessError as FileAccessError
    from irdeconv.base.errors import InferenceError as InferenceError
    from irdeconv.base.errors import InputError as InputError
    from irdeconv.base.errors import IrdeconvError as IrdeconvError
    from irdeconv.base.errors import LimitError as LimitError
    from irdeconv.base.errors import LoweringError as LoweringError
    from irdeconv.base.errors import NothingToReduceError as NothingToReduceError
    from irdeconv.base.errors import TargetError as TargetError
    from irdeconv.base.errors import UnsupportedError as UnsupportedError
    from irdeconv.base.errors import UsageError as UsageError
    from irdeconv.base.limits import Limits as Limits
    from irdeconv.formats.models import HoldsGraph as HoldsGraph
    from irdeconv.formats.models import ModelLike as ModelLike
    from irdeconv.formats.models import OnnxModel as OnnxModel
    from irdeconv.formats.models import OpenVinoModel as OpenVinoModel
    from irdeconv.formats.onnx_lowering import LoweredOnnx as LoweredOnnx
    from irdeconv.formats.onnx_lowering import lower_onnx as lower_onnx
    from irdeconv.ir.graph import Graph as Graph
    from irdeconv.ir.graph import Node as Node
    from irdeconv.ir.graph import Value as Value
    from irdeconv.ir.op import Op as Op
    from irdeconv.ir.spec import Interval as Interval
    from irdeconv.ir.spec import Spec as Spec
    from irdeconv.public.editing import extract as extract
    from irdeconv.public.editing import rename as rename
    from irdeconv.public.editing import simplify as simplify
    from irdeconv.public.reading import convert as convert
    from irdeconv.public.reading import dump as dump
    from irdeconv.public.reading import infer as infer
    from irdeconv.public.reading import parse as parse
    from irdeconv.public.reading import read as read
    from irdeconv.public.reading import validate as validate
    from irdeconv.public.rewriting import certify as certify
    from irdeconv.public.rewriting import check_certificate as check_certificate
    from irdeconv.public.rewriting import lower as lower
    from irdeconv.public.rewriting import raise_ as raise_
    from irdeconv.public.rewriting import reduce as reduce
    from irdeconv.public.rewriting import to_openvino as to_openvino
    from irdeconv.public.rewriting import write as write
    from irdeconv.public.running import bench as bench
    from irdeconv.public.running import compile as compile
    from irdeconv.public.running import map_blocks as map_blocks
    from irdeconv.public.running import run as run
    from irdeconv.public.showing import compare as compare
    from irdeconv.public.showing import explain as explain
    from irdeconv.public.showing import graph_page as graph_page
    from irdeconv.public.showing import inspect as inspect
    from irdeconv.rewrite.lower_deconv import Lowered as Lowered
    from irdeconv.rewrite.lower_deconv import LoweringReport as LoweringReport
    from irdeconv.rewrite.targets import Target as Target
    from irdeconv.runtime.bench import BenchReport as BenchReport
    from irdeconv.runtime.plan import Plan as Plan
    from irdeconv.runtime.simplify import SimplificationReport as SimplificationReport
    from irdeconv.runtime.simplify import Simplified as Simplified
    from irdeconv.show.explanation import Explanation as Explanation
    from irdeconv.show.inspection import Inspection as Inspection
    from irdeconv.show.operations import Operations as Operations
    from irdeconv.show.operations import operations as operations
    from irdeconv.show.page import PageContent as PageContent
    from irdeconv.verify.certificates import Certificate as Certificate
    from irdeconv.verify.certificates import Certificates as Certificates
    from irdeconv.verify.certificates import CheckReport as CheckReport
    from irdeconv.verify.comparison import Comparison as Comparison
    from irdeconv.verify.onnx_check import check_onnx as check_onnx
    from irdeconv.verify.raising import Raised as Raised
    from irdeconv.verify.raising import RaisingReport as RaisingReport
    from irdeconv.verify.reduce import Reduced as Reduced
    from irdeconv.verify.suite import check_suite as check_suite
    from irdeconv.verify.suite import run_suite as run_suite
    from irdeconv.verify.suite import suite as suite
    from irdeconv.verify.suite_manifest import Suite as Suite
    from irdeconv.verify.suite_report import SuiteReport as SuiteReport

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
    "public.showing": "compare explain graph_page inspect",
    "rewrite.lower_deconv": "Lowered LoweringReport",
    "rewrite.targets": "Target",
    "runtime.bench": "BenchReport",
    "runtime.plan": "Plan",
    "runtime.simplify": "SimplificationReport Simplified",
    "show.explanation": "Explanation",
    "show.inspection": "Inspection",
    "show.operations": "Operations operations",
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

if not TYPE_CHECKING:  # else any name would pass, misspelled ones as well
    __all__ = sorted([*_HOMES, "__version__"])

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
        return list(__all__)
