"""Draw the imports between the rooms of irdeconv/ and hold them to their order.

    python tools/draw_imports.py            print the drawing, and every import that breaks a rule
    python tools/draw_imports.py --write    put the drawing into ARCHITECTURE.md
    python tools/draw_imports.py --check    exit code 1 where a rule is broken or the page is old

A room is a folder, or some files directly in irdeconv/. LEVELS is the only place that says where a
room stands, WALLS what some rooms may import at most. All is read from the sources: imports in
functions and for type checking count, and so do modules that are named in a text, as for
`import_module("irdeconv.x")`.
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

PAGE = ROOT / "ARCHITECTURE.md"
BEGIN, END = "<!-- drawing: imports -->\n```\n", "```\n<!-- end of the drawing -->\n"
WIDTH = 98

# The rooms of files that stand directly in irdeconv/; other files there are rooms of their own.
FILES = {
    "places": "access codes errors garbage limits opening source suggest",
    "tensors": "attributes dtypes extras plural spec",
    "meaning": "constant declare geometry geometry_conv geometry_hints moved op packing traits",
    "graph": "graph node",
    "irdeconv": "__init__",
}

# Their folders are families, which share the files beside them and are all loaded together.
FAMILIES = ("ops",)

# From the bottom up: a room imports rooms of its own level and of those below.
LEVELS = (
    ("proof", "the trusted core of the proof: two files in, a verdict out"),
    (
        "places progress wrapping markup",
        "diagnostics with code, file, line and column; how far work is; lines, HTML",
    ),
    (
        "code_pages runtime_faults",
        "what a diagnostic code means, with an example; known faults of runtimes",
    ),
    ("tensors", "element types, dimensions, texts of attributes"),
    ("meaning", "what an operation is; every rule of pads, once"),
    ("drawing", "pictures of plain numbers and texts: graphs, axes; nothing of operations"),
    ("kernels/shared", "numbers, nothing of graphs; here what all kernels share"),
    ("kernels/compiled", "loops; imported only where numba is installed"),
    (
        "kernels/convolution kernels/detection kernels/elementwise kernels/pooling",
        "with such loops or without",
    ),
    (
        "kernels/attention kernels/random kernels/sequences kernels/signal",
        "whole arrays at a time: attention, random words, Fourier transforms",
    ),
    ("kernels/deconvolution", "the transpose of a convolution"),
    ("kernels", "all other kernels"),
    ("graph", "nodes, ports, edges; nothing of operations"),
    ("ops dialects", "one frozen dataclass per operation"),
    ("targets", "what a device has: operations with conditions, costs"),
    (
        "io text passes passes/raising editing runtime importers importers/legacy onnx_files "
        "onnx_lowering",
        "the arrows of the data flow",
    ),
    (
        "verify/proof verify/smt verify/onnx_models verify/raising verify/compare inspection "
        "explanation benchmark conformance",
        "proving, comparing, showing, explaining, timing, conformance",
    ),
    ("page", "the graph page: one HTML file for a browser"),
    ("models", "whatever is given becomes a graph"),
    ("proving", "two models become the sides of a proof"),
    ("batches", "many items of work: names, a journal, processes; nothing of models"),
    ("reducing", "what a failing model can do without"),
    ("public extension", "the public functions by what they are for; operations of others"),
    ("irdeconv", "the public names"),
    ("cli __main__", "verbs, exit codes"),
)

# All that the rooms behind a wall may import besides their own files: modules, rooms.
WALLS = {
    "kernels*": "extras progress spec kernels*",
    "proof": "",
    "verify/proof": "dtypes errors graph markup opening plural progress proof spec",
    "verify/smt": "extras plural progress proof",
    "verify/onnx_models": "errors geometry graph importers onnx_files opening plural progress "
    "verify/proof",
}

# What is imported there is known when it runs: packages that the caller asks for.
COMPUTED = ("extras", "batches.child_main", "cli.doctor", "importers.onnx_tensors")


class Sources:
    """The modules of the package: `files` by dotted name, `__init__` being the package's own."""

    def __init__(self, folder: Path = ROOT / "irdeconv") -> None:
        self.folder = folder
        self.files = {self._name(p): p for p in sorted(folder.rglob("*.py"))}
        self.names = {m: set(_imported(p)) for m, p in self.files.items()}

    def _name(self, path: Path) -> str:
        *folders, file = path.relative_to(self.folder).with_suffix("").parts
        return ".".join(folders if folders and file == "__init__" else [*folders, file])

    def room(self, module: str) -> str:
        """Return the room of a module."""
        path = self.files[module].relative_to(self.folder)
        if path.parts[0] in FAMILIES:
            return path.parts[0]
        if len(path.parts) > 1:
            return path.parent.as_posix()
        return next((room for room, files in FILES.items() if module in files.split()), module)

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
    def rooms(self) -> dict[str, set[str]]:
        """What every room imports; a package that imports nothing and has no files is none."""
        out: dict[str, set[str]] = {}
        for module, path in self.files.items():
            if path.stem != "__init__" or self.arrows[module]:
                to = out.setdefault(self.room(module), set())
                to |= {self.room(t) for t in self.loaded(module)} - {self.room(module)}
        return out


def parsed(path: Path) -> ast.Module:
    """Return the tree of a file; the same text is not parsed twice."""
    return _tree(path.read_text("utf-8"), str(path))


@cache
def _tree(text: str, path: str) -> ast.Module:
    return ast.parse(text, path)


def _imported(path: Path) -> Iterator[str]:
    """Yield the dotted name of everything that a file imports, in whatever way; `?`: not said."""
    for node in ast.walk(parsed(path)):
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


def level(room: str) -> int | None:
    """Return the number of a room's level, from the bottom up."""
    return next((n for n, (rooms, _) in enumerate(LEVELS) if room in rooms.split()), None)


def allowed(here: str, target: str, there: str) -> bool:
    """Whether the walls let a room import a module of another room."""
    walls = [WALLS[w].split() for w in WALLS if fnmatchcase(here, w)]
    return all(any(fnmatchcase(n, w) for n in (target, there) for w in wall) for wall in walls)


def problems(sources: Sources) -> list[str]:
    """Return everything that the imports break."""
    out = [f"{room} has no place in LEVELS" for room in sources.rooms if level(room) is None]
    out += [
        f"{m} imports what the source does not name"
        for m, names in sources.names.items()
        if "?" in names and m not in COMPUTED
    ]
    for module in sources.files:
        here = sources.room(module)
        for target in sorted(sources.loaded(module)):
            there = sources.room(target)
            if (level(there) or 0) > (level(here) or 0):
                out.append(f"{module} imports {target}: upwards")
            if here != there and not allowed(here, target, there):
                out.append(f"{module} imports {target}: through the wall of {here}")
    for arrows in (sources.rooms, sources.arrows):
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
    """Return the levels, the highest on top: behind each room what it imports."""
    order = [room for rooms, _ in reversed(LEVELS) for room in rooms.split()]
    wide = max(map(len, order)) + 2
    lines = []
    for rooms, about in reversed(LEVELS):
        lines.append(f"-- {about} ".ljust(WIDTH, "-"))
        for room in (r for r in rooms.split() if r in sources.rooms):
            to = ", ".join(r for r in order if r in sources.rooms[room])
            lines += textwrap.wrap(
                f"{room:<{wide}}-> {to}" if to else room,
                WIDTH,
                subsequent_indent=" " * (wide + 3),
                break_on_hyphens=False,
            )
    lines.append("-" * WIDTH)
    lines += [f"{room:<{wide}}=  {', '.join(files.split())}" for room, files in FILES.items()]
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Print, write or check; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="put the drawing into ARCHITECTURE.md")
    parser.add_argument("--check", action="store_true", help="exit code 1 where something is wrong")
    args = parser.parse_args(argv)
    sources = Sources()
    page, drawn, broken = PAGE.read_text("utf-8"), drawing(sources), problems(sources)
    assert page.count(BEGIN) == 1, f"{PAGE} has no place for the drawing, or several"
    head, _, rest = page.partition(BEGIN)
    old, _, tail = rest.partition(END)
    if args.write:
        PAGE.write_text(f"{head}{BEGIN}{drawn}{END}{tail}", "utf-8")
    elif args.check and old != drawn:
        broken.append("the drawing is old: python tools/draw_imports.py --write")
    elif not args.check:
        print(drawn, end="")
    print(*broken, sep="\n", end="\n" if broken else "", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
