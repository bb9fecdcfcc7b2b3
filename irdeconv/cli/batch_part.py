"""An item of `batch run --inputs`: rows go through a plan that a process compiles once."""

from __future__ import annotations

import argparse
import io
import json
import os
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from irdeconv.batches.rows import Row
from irdeconv.cli.batch_answer import Places, row_of
from irdeconv.cli.batch_arrays import read_rows
from irdeconv.cli.console import Console
from irdeconv.cli.main import guarded, verb_parser
from irdeconv.cli.options import execution
from irdeconv.plural import count

if TYPE_CHECKING:
    from irdeconv.runtime.plan import Plan
    from irdeconv.spec import Array

OUTPUTS = "outputs.npz"


def execute_part(payload: dict[str, Any], places: Places | None) -> Row:
    """Run the rows that a payload names, and keep the outputs where they are made."""
    out = io.StringIO()
    console = Console("json", out=out, err=io.StringIO(), quiet=True)
    code = guarded("run", lambda: console, partial(_run, payload, places, console))
    return row_of("run", code, _with_file(out.getvalue(), payload["arrays"]), places)


def _with_file(text: str, file: str) -> str:
    """Return a document that says of which file it is, also where it tells an error."""
    document = json.loads(text)
    return json.dumps({**document, "file": file}) if "error" in document else text


def _run(payload: dict[str, Any], places: Places | None, console: Console) -> int:
    from irdeconv.cli.output import save_arrays, statistics
    from irdeconv.runtime.rows import run_rows

    args, plan, names = compiled(payload["model"], tuple(payload["words"]))
    rows = None if payload["part"] is None else tuple(payload["part"])
    cut = _named(plan, read_rows(payload["arrays"], rows), payload["arrays"])
    feeds = {**_others(args, plan, cut, console), **cut}
    arrays = run_rows(plan, feeds, cut)
    outputs = dict(zip(names, arrays.values(), strict=True))
    if places is not None:
        save_arrays(os.path.join(places.made, OUTPUTS), outputs)
    facts = {name: statistics(array) for name, array in outputs.items()}
    said = {"file": payload["arrays"], "seed": args.seed, "outputs": facts}
    console.json("run", {**said, **_rows(payload, cut)})
    return 0


def _rows(payload: dict[str, Any], cut: dict[str, Array]) -> dict[str, Any]:
    """Return which rows of how many these are, and what they share with those made alike."""
    sizes = {array.shape[0] for array in cut.values() if array.ndim}
    if len(sizes) != 1:
        return {}
    begin, end = payload["part"] or (0, sizes.pop())
    rows = {"begin": begin, "end": end, "of": payload["of"] or end}
    return {"rows": rows, "origin": payload["origin"]}


@lru_cache(maxsize=1)
def compiled(model: str, words: tuple[str, ...]) -> tuple[argparse.Namespace, Plan, list[str]]:
    """Return the options, the plan and the names of its outputs; the last ones are kept."""
    import irdeconv as ird
    from irdeconv.cli.model import inferred, read
    from irdeconv.editing.outputs import with_outputs
    from irdeconv.limits import of_settings

    args = verb_parser("run").parse([model, "--threads=1", *words])
    for path in args.extension:
        from irdeconv.extension import load

        load(path)
    with of_settings(args.limit).applied():
        graph = inferred(read(args), args.shape)
        names = graph.outputs
        if args.outputs:
            graph, names = with_outputs(graph, args.outputs, "--outputs")
        return args, ird.compile(graph, exact=args.exact, **execution(args)), list(names)


def _named(plan: Plan, arrays: dict[str, Array], path: str) -> dict[str, Array]:
    """Return arrays by the names of inputs: by name, or in order where no name fits."""
    from irdeconv.errors import misused

    binder = plan.binder
    usual = dict(zip((n.id for n in binder.parameters), binder.inputs, strict=True))
    known = {k: v for k, v in arrays.items() if k in binder.names}
    if known:
        return {usual[binder.names[name].id]: array for name, array in known.items()}
    if len(arrays) > len(binder.inputs):
        message = f"{path} has {count(len(arrays), 'array')}, none named like an input"
        raise misused(message, f"the inputs are {', '.join(binder.inputs)}")
    return dict(zip(binder.inputs, arrays.values(), strict=False))


def _others(
    args: argparse.Namespace, plan: Plan, cut: dict[str, Array], console: Console
) -> dict[str, Array]:
    """Return the inputs that the file does not have: as --input says, else random numbers."""
    from irdeconv.cli.inputs import gather

    if set(cut) == set(plan.binder.inputs):
        return {}
    items = list(args.inputs)
    return gather(plan.graph, items, args.seed, console, without=cut)
