"""`--print-python`: a script that does with the public functions what a command does."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from irdeconv.base.errors import misused
from irdeconv.base.form_names import FALLBACK
from irdeconv.cli import model
from irdeconv.cli.checks import runtime_and_file
from irdeconv.cli.options import RECORDS, execution, lowering_options
from irdeconv.formats.kinds import SAVED
from irdeconv.ir.graph import Graph
from irdeconv.ir.spec import Spec, format_shape
from irdeconv.runtime.feeds import generator

_MODEL = "FILE --weights --semantics --shape --fill --format --print-python"
_INPUTS = f"{_MODEL} NAME=VALUE --input --seed --form"
COVERED = {
    "infer": f"{_MODEL} -o",
    "lower": f"{_MODEL} --form --target --only --convolutions --fuse --best-effort -o",
    "run": f"{_INPUTS} --threads --no-fuse --max-memory --exact --outputs -o",
    "compare": f"{_INPUTS} OTHER --other-weights --target --peer-precision",
}

# Lines of a script that reads .npz or .safetensors.
_LOAD = """from irdeconv.formats.arrays import SavedArrays


def load(path):
    with SavedArrays(path) as arrays:
        return dict(arrays)
""".split("\n")


def script(verb: str, args: argparse.Namespace) -> str:
    """Return the script; UsageError for options that it cannot express."""
    given = [o.name for o in RECORDS[verb].options if o.is_in(args)]
    given += [f"--{name}" for name in ("extension", "limit") if getattr(args, name)]
    odd = [name for name in given if name not in COVERED[verb].split()]
    output = getattr(args, "output", None)
    odd += [f"-o {output}"] * (output is not None and not output.endswith((".xml", ".npz")))
    if odd or args.file == "-":
        what = " and ".join(odd) or "stdin"
        raise misused(f"--print-python has no lines for {what}", "leave it out")
    graph = model.inferred_model(args, needed=True)
    shapes = {k: s and format_shape(s) for k, s in model.shapes_for(graph, args.shape).items()}
    read = _call("read", repr(args.file), weights=args.weights, semantics=args.semantics)
    source = read if args.weights or not args.file.endswith(".onnx") else repr(args.file)
    lines = ["import numpy as np", "", "import irdeconv as ird", ""]
    lines += [f"model = {_call('infer', source, shapes=shapes)}"]
    inputs = [*_inputs(graph, args)] if "inputs" in args else []
    if any(": load(" in line for line in inputs):
        lines[3:] = [*_LOAD, *lines[3:]]
    lines += inputs
    return "\n".join([*lines, *_steps(verb, args, output), ""])


def _call(function: str, first: str, **options: Any) -> str:
    """Return a call; options that are not used are left out."""
    used = {k: v for k, v in options.items() if v not in (None, False, [], {}) or k == "form"}
    return f"ird.{function}({', '.join([first, *(f'{k}={v!r}' for k, v in used.items())])})"


def _inputs(graph: Graph, args: argparse.Namespace) -> Iterator[str]:
    """Yield the lines that make the inputs, and give open ones the shapes of their arrays."""
    texts: dict[str, Any] = {}
    for item in [*args.inputs, *getattr(args, "values", ())]:
        for name, value in model.assignments(graph, item, texts).items():
            texts[name] = value if isinstance(value, str) else _saved(graph, item, name)
    yield "inputs = {"
    for index, (name, node) in enumerate(zip(graph.inputs, graph.parameters, strict=True)):
        text = texts.get(name, "rand")
        if generator(text):
            rng = f"np.random.default_rng([{args.seed}, {index}])"
            text = _numbers(text, model.filled_spec(node.spec(), args.fill), rng)
        yield f"    {name!r}: {text},"
    yield "}"
    if not all(node.spec().static for node in graph.parameters):
        yield "model = ird.infer(model, {name: array.shape for name, array in inputs.items()})"


def _saved(graph: Graph, item: str, name: str) -> str:
    """Return the expression of an array that a file of an input's value holds."""
    path = item.rpartition("@")[2]
    if path.endswith(".npy"):
        return f"np.load({path!r})"
    if not path.endswith(SAVED):
        raise misused(f"--print-python has no lines for {item}", "save it as .npy")
    with model.open_arrays(path) as arrays:
        known, names = model.input_names(graph), [*arrays]
        fits = [name] * (name in names) or [k for k in names if known.get(k) == name]
        key = fits[-1] if fits else names[graph.inputs.index(name) if len(names) > 1 else 0]
    return f"load({path!r})[{key!r}]"


def _numbers(kind: str, spec: Spec, rng: str) -> str:
    """Return the expression of the numbers that `irdeconv.runtime.feeds.generate` makes."""
    if kind in ("ones", "zeros"):
        text = f"np.{kind}({spec.shape})"
    elif not spec.static or spec.dtype is None or not kind.startswith("rand") or kind == "randn":
        raise misused(f"--print-python has no lines for {kind} of {spec}", "save the input as .npy")
    else:
        low, high = map(float, (kind[5:-1] or f"0,{1 if spec.dtype.is_real else 9}").split(","))
        text = f"{rng}.integers({low:.0f}, {high:.0f}, {spec.shape}, endpoint=True)"
        if spec.dtype.is_real:
            text = f"({low} * (1 - (t := {rng}.random({spec.shape}))) + {high} * t)"
    return f"{text}.astype({str(spec.dtype and spec.dtype.container)!r})"


def _steps(verb: str, args: argparse.Namespace, output: str | None) -> list[str]:
    """Return the lines that do the work of a verb."""
    if verb == "run":
        how = {**execution(args), "exact": args.exact, "outputs": args.outputs}
        call = _call(
            "run", "model, inputs", **{k: how[k] for k in how if k not in ("fuse", "tune")}
        )
        call = call if how["fuse"] else f"{call[:-1]}, fuse=False)"
        save = [f"np.savez({output!r}, **outputs)"] * bool(output)
        return [f"outputs = {call}", "print({k: v.shape for k, v in outputs.items()})", *save]
    if verb == "compare":
        how = {"weights": args.other_weights, "semantics": args.semantics}
        other = _call("lower", "model", form=args.form or FALLBACK, target=args.target)
        if args.other is not None:
            saved = runtime_and_file(args.other)[0] or args.other.endswith((".npz", ".safetensors"))
            other = repr(args.other) if saved else _call("read", repr(args.other), **how)
        options = {"peer_precision": args.peer_precision}
        call = _call("compare", f"model, {other}, inputs", **options)
        return [f"report = {call}", "print(report.verdict)"]
    write = [f"ird.write(model, {output!r})"] * bool(output)
    how = (
        {"form": args.form, "target": args.target, **lowering_options(args)}
        if verb == "lower"
        else {}
    )
    lower = [f"model, report = {_call('lower', 'model', **how)}", "print(report)"] if how else []
    return [*lower, "print(model)", *write]
