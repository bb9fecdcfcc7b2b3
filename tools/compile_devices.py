"""Compile lowered models with the compilers of real devices, and write a table for docs/targets.md.

    python tools/compile_devices.py FOLDER                     all compilers and variants
    python tools/compile_devices.py FOLDER --compilers ethos-u55 --variants original target
    python tools/compile_devices.py                            only the table, from earlier results

FOLDER has ONNX models with one input of static shape. Each is compiled as it is and lowered: in the
default form, in `phases` and in `stacked`, and with `--target` of the device (variant `target`).
Three compilers are set up on first use, each in a venv of its own below --venvs, 9 GB in all:
hexagon-htp (onnxruntime-qnn, HTP v75) and rk3588 (rknn-toolkit2) also simulate the device in half
precision; ethos-u55 (onnx2tf, vela with 128 MACs) has no simulator, its error is that of the int8
file in TensorFlow Lite.

Each file is compiled in a process with a time limit. Results are kept in a JSON file (--results) by
the digest of the file and the compiler's version. --fresh compiles everything again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import checkout  # noqa: F401
from device_compilers import COMPILERS, ETHOS, Json, compile_file, set_up, versions_of
from pages import table, with_parts

from irdeconv.base.form_names import FALLBACK, PHASES, STACKED

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "tools" / "compile_devices.json"
PAGE = ROOT / "docs" / "targets.md"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "irdeconv-compilers"
FORMS = {FALLBACK: [], **{form: ["--form", form] for form in (PHASES, STACKED)}}
VARIANTS = ("original", *FORMS, "target")
LOWERING_SECONDS = 120
TOLERANCE = 0.01  # of the largest value, for half precision; wrong numbers are beyond it
INT8_TOLERANCE = 0.25


def lower(model: Path, variant: str, target: str, folder: Path) -> tuple[Path | None, str]:
    """Return the file of a variant, or why the command refuses it."""
    if variant == "original":
        return model, ""
    out = folder / f"{variant}-{target}" / model.name
    out.parent.mkdir(exist_ok=True)
    options = ["--target", target] if variant == "target" else FORMS[variant]
    command = [sys.executable, "-m", "irdeconv", "lower", str(model.resolve()), *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    how = {"env": environment, "capture_output": True, "text": True, "timeout": LOWERING_SECONDS}
    try:
        done = subprocess.run([*command, "-q", "-o", str(out), "--force"], check=False, **how)
    except subprocess.TimeoutExpired:
        return None, f"no answer in {LOWERING_SECONDS} s"
    said = (done.stderr + done.stdout).strip().splitlines()
    refused = done.returncode or not out.exists()
    return (None, f"exit {done.returncode}: {said[0] if said else ''}") if refused else (out, "")


def is_wrong(row: Json) -> bool:
    limit = INT8_TOLERANCE if row["compiler"] == ETHOS.target else TOLERANCE
    return bool(row.get("error", 0) > limit)


def is_whole(row: Json) -> bool:
    """Whether the device executes the whole model, with the right numbers."""
    checked = "failure" not in row and "error" in row and not is_wrong(row)
    return checked and not row["cpu"] and row.get("parts", 1) == 1


def cell(row: Json | None) -> str:
    """Return what became of one variant of one model."""
    if row is None:
        return ""
    kinds = sorted(set(row.get("cpu", ())))
    cpu = ", ".join(f"{row['cpu'].count(k)} {k}" for k in kinds)
    facts = [
        "whole" if is_whole(row) else "",
        row.get("failure", "").replace("|", "/")[:90],
        f"CPU: {cpu}" if cpu else "",
        f"{row['cycles']:,}" if row.get("cycles") else "",
        f"{'WRONG ' if is_wrong(row) else ''}{row['error']:.0e}" if "error" in row else "",
    ]
    return "; ".join(f for f in facts if f)


def tables(saved: Json) -> str:
    """Return the Markdown of all results: how many are whole, then a table per compiler."""
    found = {(r["compiler"], r["model"], r["variant"]): r for r in saved["rows"]}
    models = sorted({r["model"] for r in saved["rows"]})
    variants = [v for v in VARIANTS if any(r["variant"] == v for r in saved["rows"])]
    names = [name for name in COMPILERS if name in saved["versions"]]
    whole = [
        [name, *(f"{sum(is_whole(r) for r in rows)} of {len(rows)}" if rows else "" for rows in by)]
        for name in names
        for by in [[[r for k, r in found.items() if k[::2] == (name, v)] for v in variants]]
    ]
    parts = [
        "Models that the device executes whole, without an operator on the CPU and with the right "
        "numbers:",
        table(["device", *variants], whole),
        "A cell contains the operators on the CPU, the compiler's estimate of cycles, and the "
        "largest error in the simulator as a part of the largest value.",
    ]
    for name in names:
        packages = ", ".join(f"{p} {v}" for p, v in saved["versions"][name].items())
        rows = [[m, *(cell(found.get((name, m, v))) for v in variants)] for m in models]
        parts += [f"### {name}", f"Compiled with {packages}.", table(["model", *variants], rows)]
    return "\n\n".join(parts) + "\n"


def compile_all(models: list[Path], options: argparse.Namespace, saved: Json) -> None:
    """Compile what is new, and save each result at once."""
    venvs = options.venvs.resolve()
    with tempfile.TemporaryDirectory() as folder:
        for compiler in (COMPILERS[name] for name in options.compilers):
            set_up(compiler, venvs)
            versions = saved["versions"][compiler.target] = versions_of(compiler, venvs)
            for model, variant in ((m, v) for m in models for v in options.variants):
                row = {"compiler": compiler.target, "model": model.stem, "variant": variant}
                file, refusal = lower(model, variant, compiler.target, Path(folder))
                if file is None:
                    keep(saved, row | {"failure": f"refused ({refusal})"}, options.results)
                    continue
                key = hashlib.sha256(file.read_bytes() + json.dumps(versions).encode()).hexdigest()
                same = [r for r in saved["rows"] if r.get("digest") == key and not options.fresh]
                facts = {k: v for k, v in same[0].items() if k not in row} if same else None
                done = facts or compile_file(compiler, file, venvs)
                keep(saved, {**row, **done, "digest": key}, options.results)


def keep(saved: Json, row: Json, file: Path) -> None:
    """Put a row in the place of an earlier one, and write the file."""
    names = "compiler", "model", "variant"
    others = [r for r in saved["rows"] if any(r[n] != row[n] for n in names)]
    saved["rows"] = sorted([*others, row], key=lambda r: [r[n] for n in names])
    file.write_text(json.dumps(saved, indent=1, sort_keys=True) + "\n", "utf-8")
    print(*(row[n] for n in names), cell(row), sep="  ", flush=True)


def main() -> None:
    """Compile, and write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    add = parser.add_argument
    add("models", nargs="*", type=Path, help="ONNX models, or folders of them")
    add("--venvs", type=Path, default=CACHE, help="folder of the venvs (default: %(default)s)")
    add("--results", type=Path, default=RESULTS, help="JSON file (default: %(default)s)")
    add("--page", type=Path, default=PAGE, help="page of the table (default: %(default)s)")
    add("--compilers", nargs="+", choices=COMPILERS, default=list(COMPILERS), metavar="NAME")
    add("--variants", nargs="+", choices=VARIANTS, default=VARIANTS, metavar="NAME")
    add("--fresh", action="store_true", help="compile files with known results again")
    options = parser.parse_args()
    saved: Json = {"versions": {}, "rows": []}
    if options.results.exists():
        saved = json.loads(options.results.read_text("utf-8"))
    folders = [sorted(p.glob("*.onnx")) if p.is_dir() else [p] for p in options.models]
    if models := [file for files in folders for file in files]:
        compile_all(models, options, saved)
    for page, text in with_parts(options.page, {"compilers": tables(saved)}).items():
        page.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
