"""Count the lines of the package, the tests and the tools, and hold them below ceilings.

    python tools/size.py                    by folder, and the difference to the commit before
    python tools/size.py --against REV      the difference to another commit
    python tools/size.py --check            exit code 1 above a ceiling, or far below one
    python tools/size.py --write            set the ceilings to the sizes of now

Rows are the folders of irdeconv/, and one row for the files beside them. "lines" counts all lines
of .py files, "code" those that are not blank, comment or docstring; data_lines are those of the
package's texts, TOML and JSON. .ci/ceilings.toml has the ceilings. A ceiling may be at most 1 %
above the size, so after a reduction it must be lowered.
Without git there are no differences.
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import sys
import tarfile
import tomllib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CEILINGS = ".ci/ceilings.toml"
PARTS = ("irdeconv", "tests", "tools")
SLACK = 0.01
Files = Mapping[str, str]
Sizes = Mapping[str, tuple[int, int]]  # lines and lines of code by folder


def working_tree(root: Path) -> Files:
    """Return the texts of all .py files by their paths."""
    paths = sorted(p for part in PARTS for p in (root / part).rglob("*.py"))
    return {p.relative_to(root).as_posix(): p.read_text("utf-8") for p in paths}


def committed(root: Path, revision: str) -> Files | None:
    """Return the same of a commit; None without git or without that commit."""
    names = [f"{revision}:{part}" for part in PARTS]
    out: dict[str, str] = {}
    for part, name in zip(PARTS, names, strict=True):
        command = ["git", "-c", "safe.directory=*", "archive", "--format=tar", name]
        try:
            done = subprocess.run(command, cwd=root, capture_output=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            return None
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as held:
            for member in held:
                file = held.extractfile(member) if member.name.endswith(".py") else None
                if file is not None:
                    out[f"{part}/{member.name}"] = file.read().decode("utf-8")
    return out


def code_lines(text: str) -> int:
    """Count lines that are neither blank nor comments nor docstrings."""
    lines = [line.strip() for line in text.splitlines()]
    code = {i for i, line in enumerate(lines, 1) if line and not line.startswith("#")}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                docstring = isinstance(first.value.value, str)
                code -= {*range(first.lineno, (first.end_lineno or 0) + 1)} if docstring else set()
    return len(code)


def folders(files: Files) -> Sizes:
    """Return the sizes of all folders, and of tests and tools as a whole."""
    lines: Counter[str] = Counter()
    code: Counter[str] = Counter()
    for path, text in files.items():
        part, *inner = path.split("/")
        folder = (
            f"irdeconv/{inner[0] if len(inner) > 1 else '*.py'}" if part == "irdeconv" else part
        )
        lines[folder] += len(text.splitlines())
        code[folder] += code_lines(text)
    return {folder: (lines[folder], code[folder]) for folder in sorted(lines)}


def measured(files: Files, root: Path) -> dict[str, int]:
    """Return what has a ceiling."""
    sizes = dict.fromkeys(PARTS, 0)
    for path, text in files.items():
        sizes[path.partition("/")[0]] += len(text.splitlines())
    package = root / "irdeconv"
    data = [p for end in ("txt", "toml", "json") for p in package.rglob(f"*.{end}")]
    places = [p for p in package.iterdir() if not p.name.startswith(("__pyc", "."))]
    return {
        "package_lines": sizes["irdeconv"],
        "data_lines": sum(len(p.read_text("utf-8").splitlines()) for p in data),
        "package_files": sum(path.startswith("irdeconv/") for path in files),
        "package_places": len(places),  # files and folders directly in irdeconv/
        "test_lines": sizes["tests"],
        "tool_lines": sizes["tools"],
    }


def problems(found: Mapping[str, int], ceilings: Mapping[str, int]) -> list[str]:
    """Return where a ceiling is exceeded, or has to be lowered."""
    out = [f"{CEILINGS}: no such size: {n}" for n in sorted(ceilings.keys() - found.keys())]
    for name, size in found.items():
        ceiling = ceilings.get(name, 0)
        if size > ceiling:
            out.append(f"{name} is {size:,}, above the ceiling of {ceiling:,}")
        elif ceiling > size * (1 + SLACK):
            out.append(f"{name} is {size:,}: lower the ceiling of {ceiling:,} (--write does it)")
    return out


def table(now: Sizes, before: Sizes | None) -> str:
    """Return a row for each folder, with differences where there are some."""
    rows = [("folder", "lines", "", "code", "")]
    totals = [tuple(map(sum, zip(*s.values(), strict=True))) for s in (now, before) if s]
    sums = {"all": totals[0]}, {"all": totals[1]} if before else None
    for new, old in ((now, before), sums):
        for folder in sorted({*new, *(old or {})}):
            sizes, earlier = new.get(folder, (0, 0)), (old or new).get(folder, (0, 0))
            signed = [f"{n - o:+,}" if n != o else "" for n, o in zip(sizes, earlier, strict=True)]
            rows.append((folder, f"{sizes[0]:,}", signed[0], f"{sizes[1]:,}", signed[1]))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    pairs = [list(zip(row, widths, strict=True)) for row in rows]
    lines = ["  ".join([f"{r[0][0]:<{r[0][1]}}", *(f"{t:>{w}}" for t, w in r[1:])]) for r in pairs]
    return "\n".join(line.rstrip() for line in lines)


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Print, check or write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--against", default="HEAD^", metavar="REV", help="default: %(default)s")
    parser.add_argument("--check", action="store_true", help="hold the sizes against the ceilings")
    parser.add_argument("--write", action="store_true", help="set the ceilings to what there is")
    options = parser.parse_args(arguments)
    files = working_tree(root)
    found = measured(files, root)
    if options.write:
        text = "# tools/size.py --check holds the tree below these; --write sets them.\n"
        text += "".join(f"{name} = {size}\n" for name, size in found.items())
        (root / CEILINGS).write_text(text, "utf-8")
    if options.check:
        wrong = problems(found, tomllib.loads((root / CEILINGS).read_text("utf-8")))
        print("\n".join(wrong) or "all sizes are below their ceilings, and close to them")
        return 1 if wrong else 0
    before = committed(root, options.against)
    print(table(folders(files), folders(before) if before is not None else None))
    print(*(f"{name} {size:,}" for name, size in found.items()), sep=", ")
    return 0


if __name__ == "__main__":
    sys.exit(main())
