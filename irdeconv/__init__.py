"""Check, infer, lower, run and write OpenVINO-style IR.

The public names are loaded on first use, so that importing the package costs next to nothing:

    import irdeconv as ird
    g = ird.infer(ird.read("net.xml"))
    low = ird.lower(g)
    outs = ird.run(g, {"x": x})
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing it from typing would take longer than all the rest here

if TYPE_CHECKING:
    from typing import Any

    from irdeconv.api import (
        bench,
        compare,
        compile,
        convert,
        explain,
        extract,
        infer,
        inspect,
        lower,
        raise_,
        read,
        reduce,
        rename,
        run,
        validate,
        write,
    )
    from irdeconv.errors import (
        Diagnostic,
        ExecutionError,
        FileAccessError,
        InferenceError,
        InputError,
        IrdeconvError,
        LimitError,
        LoweringError,
        NothingToReduceError,
        UnsupportedError,
        UsageError,
    )
    from irdeconv.graph import Graph
    from irdeconv.onnx_lowering.files import lower_onnx
    from irdeconv.spec import Spec
    from irdeconv.text import dump, parse
    from irdeconv.verify.onnx_models.check import check_onnx

__version__ = "0.1.0"

__all__ = [
    "Diagnostic",
    "ExecutionError",
    "FileAccessError",
    "Graph",
    "InferenceError",
    "InputError",
    "IrdeconvError",
    "LimitError",
    "LoweringError",
    "NothingToReduceError",
    "Spec",
    "UnsupportedError",
    "UsageError",
    "__version__",
    "bench",
    "check_onnx",
    "compare",
    "compile",
    "convert",
    "dump",
    "explain",
    "extract",
    "infer",
    "inspect",
    "lower",
    "lower_onnx",
    "parse",
    "raise_",
    "read",
    "reduce",
    "rename",
    "run",
    "validate",
    "write",
]

_HOMES = {
    "Graph": "graph",
    "Spec": "spec",
    "check_onnx": "verify.onnx_models.check",
    "dump": "text",
    "lower_onnx": "onnx_lowering.files",
    "parse": "text",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'irdeconv' has no attribute '{name}'")
    from importlib import import_module

    home = _HOMES.get(name) or ("api" if name.islower() else "errors")
    value = getattr(import_module(f"irdeconv.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
