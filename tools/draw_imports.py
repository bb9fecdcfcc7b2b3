"""Draw the imports between the folders of irdeconv/ and hold them to their order.

    python tools/draw_imports.py            print the drawing, and every import that breaks a rule
    python tools/draw_imports.py --write    put the drawing into ARCHITECTURE.md
    python tools/draw_imports.py --check    exit code 1 where a rule is broken or the page is old

A file directly in irdeconv/ counts as a folder. LEVELS orders the folders, WALLS lists everything
that some modules may import. The sources are parsed: imports in functions and for type checking
count, and so do names of modules in texts, as in `import_module("irdeconv.x")`.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache, cached_property
from pathlib import Path

from checkout import ROOT
from pages import with_parts

PAGE = ROOT / "ARCHITECTURE.md"
WIDTH = 98

# From the bottom up: a folder imports folders of its own level and of those below.
LEVELS = (
    ("base proof", "diagnostics, limits, texts; the trusted core of the proof imports nothing"),
    ("ir", "element types, shapes, nodes, graphs; what an operation is; geometry"),
    ("kernels", "computations on arrays; compiled_* only if numba is installed"),
    ("ops extension", "one frozen dataclass per operation; extension: for your own"),
    ("rewrite", "inference, lowering, legalisation for targets"),
    ("formats", "OpenVINO IR of all versions, ONNX, oneDNN Graph, the text form"),
    ("runtime", "plans that execute graphs; pieces of graphs; benchmarks"),
    ("verify", "certificates, raising, comparison, reduction, conformance suites"),
    ("show", "tables, explanations, drawings, the graph page"),
    ("public", "the public functions by topic"),
    ("irdeconv", "the public names"),
    ("cli", "verbs, exit codes, batches"),
    ("__main__", "`python -m irdeconv`"),
)

# The modules behind a wall, and all that they may import: modules or whole folders.
CERTIFIES = "proof* base.* ir.dtypes ir.spec ir.graph"
WALLS = {
    "proof*": "proof*",
    "kernels*": "kernels* base.extras base.progress ir.spec",
    "verify.certificates": CERTIFIES,
    "verify.adapter": f"{CERTIFIES} verify.certificates",
    "verify.probe": f"{CERTIFIES} verify.adapter verify.certificates",
    "verify.second_*": "verify.second_* base.extras base.progress base.work",
}

# What is imported there is known when it runs: packages that the caller asks for.
COMPUTED = ("base.extras", "cli.about", "cli.batch_executors", "formats.onnx_node")


class Sources:
    """The modules of the package: `files` by dotted name, `__init__` being the package's own."""

    def __init__(self, folder: Path = ROOT / "irdeconv") -> None:
        self.folder = folder
        self.files = {self._name(p): p for p in sorted(folder.rglob("*.py"))}
        self.names = {m: set(_imported(p)) for m, p in self.files.items()}

    def _name(self, path: Path) -> str:
        *folders, file = path.relative_to(self.folder).with_suffix("").parts
        return ".".join(folders if folders and file == "__init__" else [*folders, file])

    def folder_of(self, module: str) -> str:
        """Return the folder of a module, or its name if it is directly in irdeconv/."""
        return "irdeconv" if module == "__init__" else module.split(".")[0]

    def _resolved(self, name: str) -> str:
        """Return the module of a dotted name: of a function, the module that it is in."""
        parts = name.split(".")[1:]
        while parts and ".".join(parts) not in self.files:
            parts.pop()
        return ".".join(parts) or "__init__"

    @cached_property
    def arrows(self) -> dict[str, set[str]]:
        """What every module imports of the package.

        The version stands in the package's own file, which runs first in any case: no arrow.
        """
        out = {}
        for module, names in self.names.items():
            own = {n for n in names if n.split(".")[0] == "irdeconv"} - {"irdeconv.__version__"}
            out[module] = {self._resolved(n) for n in own} - {module}
        return out

    def loaded(self, module: str) -> set[str]:
        """Return what a module imports, and the packages around that which import more."""
        out = set(self.arrows[module])
        for name in self.arrows[module] | {module}:
            parts = name.split(".")
            around = {".".join(parts[:n]) for n in range(1, len(parts))}
            out |= {p for p in around if self.arrows.get(p)}
        return out

    @cached_property
    def folders(self) -> dict[str, set[str]]:
        """What every folder imports."""
        out: dict[str, set[str]] = {}
        for module in self.files:
            to = out.setdefault(self.folder_of(module), set())
            to |= {self.folder_of(t) for t in self.loaded(module)} - {self.folder_of(module)}
        return out


def nodes(path: Path) -> Sequence[ast.AST]:
    """Return all nodes of a file, the module first; the same text is not parsed twice."""
    return _nodes(path.read_text("utf-8"), str(path))


@cache
def _nodes(text: str, path: str) -> Sequence[ast.AST]:
    return list(ast.walk(ast.parse(text, path)))


def _imported(path: Path) -> Iterator[str]:
    """Yield the dotted name of everything that a file imports, in whatever way; `?`: not said."""
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute"
            yield from (f"{node.module}.{a.name}" for a in node.names)
        elif isinstance(node, ast.Constant) and re.fullmatch(r"irdeconv\.[\w.]*", str(node.value)):
            yield node.value
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func).split(".")[-1]
            if name in ("import_module", "__import__", "extra"):
                yield _literal(node.args[0]) if node.args else "?"


def _literal(name: ast.expr) -> str:
    """Return what a text says, at least how it begins."""
    first = name.values[0] if isinstance(name, ast.JoinedStr) else name
    known = isinstance(first, ast.Constant) and isinstance(first.value, str)
    return first.value if known and first.value[:1] not in ("", ".") else "?"


def level(folder: str) -> int | None:
    """Return the number of a folder's level, from the bottom up."""
    return next((n for n, (folders, _) in enumerate(LEVELS) if folder in folders.split()), None)


def allowed(module: str, target: str) -> bool:
    """Whether the walls let a module import another one."""
    walls = [WALLS[w].split() for w in WALLS if fnmatchcase(module, w)]
    return all(any(fnmatchcase(target, w) for w in wall) for wall in walls)


def problems(sources: Sources) -> list[str]:
    """Return everything that the imports break."""
    out = [
        f"{folder} has no place in LEVELS" for folder in sources.folders if level(folder) is None
    ]
    out += [
        f"{m} imports what the source does not name"
        for m, names in sources.names.items()
        if "?" in names and m not in COMPUTED
    ]
    for module in sources.files:
        here = sources.folder_of(module)
        for target in sorted(sources.loaded(module)):
            there = sources.folder_of(target)
            if (level(there) or 0) > (level(here) or 0):
                out.append(f"{module} imports {target}: upwards")
            if not allowed(module, target):
                out.append(f"{module} imports {target}: through its wall")
    for arrows in (sources.folders, sources.arrows):
        round_trip = circle(arrows)
        out += [f"imports run in a circle: {' -> '.join(round_trip)}"] if round_trip else []
    return out


def circle(arrows: Mapping[str, set[str]]) -> list[str]:
    """Return a way along arrows back to its beginning; empty where there is none."""
    done: set[str] = set()

    def walk(way: list[str]) -> list[str]:
        for there in sorted(arrows.get(way[-1], set()) - done):
            if there in way:
                return [*way[way.index(there) :], there]
            back = walk([*way, there])
            if back:
                return back
        done.add(way[-1])
        return []

    return next(filter(None, (walk([start]) for start in sorted(arrows))), [])


def drawing(sources: Sources) -> str:
    """Return the levels, the highest on top: behind each folder what it imports."""
    order = [folder for folders, _ in reversed(LEVELS) for folder in folders.split()]
    wide = max(map(len, order)) + 2
    lines = []
    for folders, about in reversed(LEVELS):
        lines.append(f"-- {about} ".ljust(WIDTH, "-"))
        for folder in (r for r in folders.split() if r in sources.folders):
            to = ", ".join(r for r in order if r in sources.folders[folder])
            lines += textwrap.wrap(
                f"{folder:<{wide}}-> {to}" if to else folder,
                WIDTH,
                subsequent_indent=" " * (wide + 3),
                break_on_hyphens=False,
            )
    return "\n".join(lines) + "\n"


def with_drawing(drawn: str) -> str:
    """Return the page with a drawing in its place."""
    return with_parts(PAGE, {"imports": f"```\n{drawn}```"})[PAGE]


def main(argv: Sequence[str] | None = None) -> int:
    """Print, write or check; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="put the drawing into ARCHITECTURE.md")
    parser.add_argument("--check", action="store_true", help="exit code 1 where something is wrong")
    args = parser.parse_args(argv)
    sources = Sources()
    drawn, broken = drawing(sources), problems(sources)
    page = with_drawing(drawn)
    if args.write:
        PAGE.write_text(page, "utf-8")
    elif args.check and page != PAGE.read_text("utf-8"):
        broken.append("the drawing is old: python tools/draw_imports.py --write")
    elif not args.check:
        print(drawn, end="")
    print(*broken, sep="\n", end="\n" if broken else "", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
