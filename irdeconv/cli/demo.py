"""Take packaged samples through everything: validate, infer, lower, write, read back, run, compare.

Exit code 0 only where original, lowered and read-back graph agree on every output.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from irdeconv.cli.console import Console, count
from irdeconv.cli.options import Parser, add_form, add_format, add_inputs


def configure(parser: Parser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("samples", metavar="SAMPLE", nargs="*", help="samples (default: all)")
    parser.add_argument("--list", action="store_true", help="list the samples and stop")
    parser.add_argument("-o", "--output", metavar="DIR", help="keep the lowered IRs in this folder")
    add_form(parser, none=False)
    add_inputs(parser)
    add_format(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    """Run the demonstration."""
    chosen = _choose(args.samples)
    if args.list:
        for name, path in chosen.items():
            console.text(f"{name}  {path}")
        return 0
    with _folder(args.output) as folder:
        results = []
        for name, path in chosen.items():
            result = demonstrate(name, path, folder, args, console)
            results.append(result)
            if not console.wants_json:
                _text(result, console)
    passed = all(r["passed"] for r in results)
    if console.wants_json:
        console.json("demo", {"passed": passed, "seed": args.seed, "samples": results})
    else:
        good = sum(r["passed"] for r in results)
        verdict = (f"{good} of {len(results)} agree", "bold green" if passed else "bold red")
        console.text(f"{count(len(results), 'sample')}, form {args.form}: ", verdict)
        if args.output:
            console.log(f"the lowered IRs are in {args.output}")
    return 0 if passed else 1


def _choose(names: list[str]) -> dict[str, Path]:
    from irdeconv.cli.model import usage
    from irdeconv.cli.samples import samples
    from irdeconv.suggest import did_you_mean

    known = samples()
    if not known:
        raise usage("this installation has no samples")
    for name in names:
        if name not in known:
            raise usage(
                f'there is no sample "{name}": {", ".join(known)}', did_you_mean(name, known)
            )
    return {name: known[name] for name in names or known}


@contextmanager
def _folder(output: str | None) -> Iterator[Path]:
    if output is None:
        with tempfile.TemporaryDirectory(prefix="irdeconv-") as folder:
            yield Path(folder)
    else:
        Path(output).mkdir(parents=True, exist_ok=True)
        yield Path(output)


def demonstrate(
    name: str, path: Path, folder: Path, args: argparse.Namespace, console: Console
) -> dict[str, Any]:
    """Take one sample through all steps and return what happened."""
    from irdeconv import api
    from irdeconv.cli.inputs import gather, specialize
    from irdeconv.errors import InputError

    start = time.perf_counter()
    found = api.validate(path)
    if any(d.severity == "error" for d in found):
        raise InputError(found)
    graph = api.infer(api.read(path))
    inputs = gather(graph, args.inputs, args.seed, console)
    graph = specialize(graph, inputs)
    low = api.lower(graph, form=args.form)
    written = folder / f"{name.replace('/', '_')}.lowered.xml"
    api.write(low.graph, written)
    back = api.infer(api.read(written))
    checks = {"lowered": low.graph, "read back": back}
    feeds = list(inputs.values())
    compared = {k: api.compare(graph, g, feeds).to_dict() for k, g in checks.items()}
    return {
        "name": name,
        "passed": all(c["passed"] for c in compared.values()),
        "warnings": len(found),
        "inputs": {k: list(v.shape) for k, v in inputs.items()},
        "layers": [len(graph), len(low.graph), len(back)],
        "deconvolutions": [r.to_dict() for r in low.report],
        "comparisons": compared,
        "seconds": round(time.perf_counter() - start, 3),
    }


def _text(result: dict[str, Any], console: Console) -> None:
    mark = ("ok  ", "green") if result["passed"] else ("FAIL", "bold red")
    before, after, _ = result["layers"]
    deconvolutions = count(len(result["deconvolutions"]), "deconvolution")
    console.text(
        mark,
        f" {result['name']}: {deconvolutions}, {before} -> {after} layers, "
        f"{_outputs(result)}, {result['seconds']} s",
    )
    for what, c in result["comparisons"].items():
        if not c["passed"]:
            where = c["first_difference"] or ", ".join(c["missing"])
            console.text((f"     {what} differs first at {where}", "red"))


def _outputs(result: dict[str, Any]) -> str:
    tensors = [t for t in result["comparisons"]["read back"]["tensors"] if t["output"]]
    worst = max((t["relative"] for t in tensors), default=0.0)
    return f"{count(len(tensors), 'output')}, largest relative difference {worst:.1e}"
