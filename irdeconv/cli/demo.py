"""`demo`: enlarge a picture with a lowered network; check the packaged sample models."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import irdeconv as ird
from irdeconv.base.errors import InputError, count, did_you_mean, misused
from irdeconv.base.form_names import FALLBACK
from irdeconv.cli.checks import require_folder
from irdeconv.cli.console import Console
from irdeconv.cli.inputs import gather
from irdeconv.cli.samples import is_broken, samples
from irdeconv.ir.graph import Graph
from irdeconv.ir.spec import Dim, bounds

FOLDER = "irdeconv_demo"
OPEN = 8  # the size at which open dimensions are run


def run(args: argparse.Namespace, console: Console) -> int:
    """Run the demonstration."""
    if args.all or args.list:
        return run_samples(args, console)
    from irdeconv.cli.demo_picture import run_picture

    if args.samples:
        raise _sample_meant(args.samples[0])
    return run_picture(args, Path(args.output or FOLDER), console)


def _sample_meant(word: str) -> Exception:
    """Return the error of a word that stands alone: a sample, or a picture."""
    if word in samples():
        return misused(f'"{word}" is a sample', f"irdeconv demo --samples {word}")
    hint = f"a picture is named by --input: irdeconv demo --input {word}"
    return misused(f'"{word}" is neither an option nor a sample', hint)


def run_samples(args: argparse.Namespace, console: Console) -> int:
    """Take samples through everything; the exit code is 0 where all are as they should be."""
    if args.output is not None:
        require_folder(Path(args.output))
    chosen = _choose(args.samples)
    if args.list:
        return _list(chosen, console)
    with _folder(args.output) as folder:
        results = []
        for name, path in chosen.items():
            if is_broken(name):
                result = refused(name, path)
            else:
                result = demonstrate(name, path, folder, args)
            results.append(result)
            if not console.wants_json:
                _text(result, console)
    passed = all(r["passed"] for r in results)
    if console.wants_json:
        console.json("demo-samples", {"passed": passed, "seed": args.seed, "samples": results})
        return 0 if passed else 1
    good = sum(r["passed"] for r in results)
    verdict = f"{good} of {len(results)} as they should be"
    what = f"{count(len(results), 'sample')}, form {args.form or FALLBACK}, seed {args.seed}: "
    console.text(what, (verdict, "bold green" if passed else "bold red"))
    if args.output:
        console.log(f"the lowered IRs are in {args.output}")
    return 0 if passed else 1


def _list(chosen: dict[str, Path], console: Console) -> int:
    if console.wants_json:
        listed = [{"name": name, "file": str(path)} for name, path in chosen.items()]
        console.json("demo-samples", {"samples": listed})
    else:
        for name, path in chosen.items():
            console.text(f"{name}  {path}")
    return 0


def _choose(names: list[str]) -> dict[str, Path]:
    known = samples()
    if not known:
        raise misused("this installation has no samples", "install irdeconv anew with pip")
    for name in names:
        if name not in known:
            raise misused(
                f'there is no sample "{name}"',
                did_you_mean(name, known) or "irdeconv demo --list lists them",
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


def refused(name: str, path: Path) -> dict[str, Any]:
    """Validate a broken sample; it passes where errors are found."""
    start = time.perf_counter()
    found = ird.validate(path)
    errors = [d for d in found if d.severity == "error"]
    return {
        "name": name,
        "passed": bool(errors),
        "errors": len(errors),
        "warnings": len(found) - len(errors),
        "comparisons": {},
        "first_error": f"[{errors[0].code}] {errors[0].message}" if errors else None,
        "seconds": round(time.perf_counter() - start, 3),
    }


def _closed(graph: Graph) -> Graph:
    """Return the graph with exact input shapes."""

    def exact(dim: Dim) -> int:
        low, high = bounds(dim)
        return low if low == high else max(low, min(OPEN, OPEN if high is None else high))

    specs = {n: p.spec() for n, p in zip(graph.inputs, graph.parameters, strict=True)}
    open_ones = {n: [exact(d) for d in s.shape or ()] for n, s in specs.items() if not s.static}
    return ird.infer(graph, shapes=open_ones) if open_ones else graph


def demonstrate(name: str, path: Path, folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    """Take one sample through all steps and return what happened."""
    start = time.perf_counter()
    found = ird.validate(path)
    if any(d.severity == "error" for d in found):
        raise InputError(found)
    graph = _closed(ird.infer(ird.read(path)))
    inputs = gather(graph, args.inputs, args.seed, Console(quiet=True))
    low = ird.lower(graph, args.form or FALLBACK, args.target)
    written = folder / f"{name.replace('/', '_')}.lowered.xml"
    ird.write(low.graph, written)
    back = ird.infer(ird.read(written))
    checks = {"lowered": low.graph, "read back": back}
    feeds = list(inputs.values())
    compared = {k: ird.compare(graph, g, feeds).to_dict() for k, g in checks.items()}
    return {
        "name": name,
        "passed": all(c["passed"] for c in compared.values()),
        "errors": 0,
        "warnings": len(found),
        "inputs": {k: list(v.shape) for k, v in inputs.items()},
        "layers": [len(graph), len(low.graph), len(back)],
        "deconvolutions": [r.to_dict() for r in low.report],
        "comparisons": compared,
        "seconds": round(time.perf_counter() - start, 3),
    }


def _text(result: dict[str, Any], console: Console) -> None:
    mark = ("ok  ", "green") if result["passed"] else ("FAIL", "bold red")
    if not result["comparisons"]:
        found = f"refused, {count(result['errors'], 'error')}" if result["errors"] else "accepted"
        console.text(mark, f" {result['name']}: {found}, {result['seconds']} s")
        if result["first_error"]:
            console.text(f"     {result['first_error']}")
        return
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
