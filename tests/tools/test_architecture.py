"""The rules that hold the code base together, checked on its sources."""

import ast
import gc
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import irdeconv.ops  # noqa: F401 -- importing fills the registry
from irdeconv.base.codes import CODES
from irdeconv.base.errors import Diagnostic
from irdeconv.ir.op import REGISTRY, Op
from irdeconv.ir.ports import declaration
from support.rows import each_row
from support.scripts import script

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "irdeconv"
FILE_LINES = 700
FUNCTION_LINES = 40
DRAWN = script("draw_imports")
nodes = DRAWN.nodes  # when a test asks, since every worker collects every test


@cache
def imports() -> Any:
    """Return what every module imports."""
    sources = DRAWN.Sources()
    gc.freeze()  # the trees stay; collections of garbage in later tests need not walk them
    return sources


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(p for p in parts if p != "__init__")


MODULES = {module_name(p): p for p in sorted(PACKAGE.rglob("*.py"))}
PYTHON = sorted(p for d in ("irdeconv", "tests", "tools") for p in (ROOT / d).rglob("*.py"))


def test_imports_keep_to_the_folders() -> None:
    assert DRAWN.problems(imports()) == []


def test_the_architecture_page_shows_the_imports() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    drawn = DRAWN.drawing(imports())
    assert page.count(f"```\n{drawn}```\n") == 1
    assert page == DRAWN.with_drawing(drawn), "python tools/draw_imports.py --write"


def test_only_the_graph_imports_networkx() -> None:
    users = {
        m for m, names in imports().names.items() if any(n.startswith("networkx") for n in names)
    }
    assert users == {"ir.graph"}


def loaded(modules: list[str]) -> set[str]:
    """All modules that a new interpreter has after importing some of the package."""
    lines = [f"import irdeconv.{m}" for m in modules]
    code = "\n".join([*lines, "import sys", "print(*sys.modules)"])
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


@pytest.mark.parametrize("pattern", ["proof*", "kernels*", "verify.check"])
def test_walls_hold_at_run_time(pattern: str) -> None:
    """A module loads the modules that its source names, and theirs."""
    expected: set[str] = set()
    todo = members = [m for m in imports().files if fnmatchcase(m, pattern)]
    while todo:
        expected |= set(todo)
        todo = [t for m in todo for t in imports().arrows[m] - expected]
    there = {m.removeprefix("irdeconv.") for m in loaded(members) if m.startswith("irdeconv.")}
    plain = {m for m in there if imports().files[m].stem == "__init__" and not imports().arrows[m]}
    assert there - plain <= expected
    forbidden = {"cli", "formats", "ops", "rewrite", "runtime", "show"}
    assert not {m.split(".")[0] for m in there} & forbidden


def test_numba_is_loaded_by_compiled_kernels_only() -> None:
    """Callers import these modules inside functions: everything else works without numba."""
    others = [m for m in imports().files if not m.startswith(("__", "kernels.compiled_"))]
    there = loaded(others)
    assert {f"irdeconv.{m}" for m in others} <= there
    assert not {m for m in there if m.split(".")[0] == "numba"}


def test_products_of_matrices_are_calls_that_tests_can_watch() -> None:
    """conftest.py holds numpy.matmul and its like to np.errstate; operators would pass it by."""
    users = {
        module
        for module, path in MODULES.items()
        if any(isinstance(node, ast.MatMult) for node in nodes(path))
    }
    assert users == set(), "`@`"


def test_files_are_short() -> None:
    lengths = {path: len(path.read_text("utf-8").splitlines()) for path in PYTHON}
    assert {path: lines for path, lines in lengths.items() if lines > FILE_LINES} == {}


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements of a tree, in functions and classes as well."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        for node in getattr(tree, name, ()):
            yield node
            yield from statements(node)


def test_functions_are_short() -> None:
    package = {path: nodes(path)[0] for path in MODULES.values()}  # which other tests parse, too
    lengths = {
        (path, node.name): (node.end_lineno or 0) - node.lineno + 1
        for path in PYTHON
        for node in statements(package.get(path) or ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert {name: lines for name, lines in lengths.items() if lines > FUNCTION_LINES} == {}


def test_public_names_have_docstrings() -> None:
    defs = (ast.FunctionDef, ast.ClassDef)
    bare = []
    for module, path in MODULES.items():
        public = [
            n for n in nodes(path)[0].body if isinstance(n, defs) and not n.name.startswith("_")
        ]
        bare += [f"{module}.{n.name}" for n in public if not ast.get_docstring(n)]
        bare += [] if ast.get_docstring(nodes(path)[0]) else [module]
    assert bare == []


def test_no_unfinished_text() -> None:
    words = re.compile(r"\b(TBD|TODO|FIXME|XXX|HACK)\b")
    this = Path(__file__)
    assert [p for p in PYTHON if p != this and words.search(p.read_text("utf-8"))] == []


def prose(text: str) -> list[str]:
    """Return the words of a page or a docstring without its code."""
    return re.findall(r"[a-z]+", re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.DOTALL).lower())


def docstrings(path: Path) -> str:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = [n for n in nodes(path) if isinstance(n, kinds)]
    return "\n".join(ast.get_docstring(n) or "" for n in found)


FOLDERS = sorted({p.parent for p in MODULES.values()})


@pytest.mark.parametrize("folder", [*FOLDERS, ROOT, ROOT / "docs"], ids=lambda p: p.name)
def test_english_is_plain(folder: Path) -> None:
    """Clauses with "what", and "where" for a condition, make a reader stumble."""
    pages = [p.read_text("utf-8") for p in folder.glob("*.md")]
    words = prose("\n".join([*pages, *map(docstrings, folder.glob("*.py"))]))
    assert set(words) & {"told", "tells", "whoever", "whatever"} == set()
    assert words.count("what") <= 5 * len(words) / 1000
    assert words.count("where") <= 2 * len(words) / 1000


OPERATIONS = sorted(set(REGISTRY.values()), key=lambda c: (c.type, c.version))


@each_row("cls", OPERATIONS)
def test_operation_is_described(cls: type[Op]) -> None:
    doc = (cls.__doc__ or "").strip()
    assert len(doc.splitlines()[0]) > 10
    assert not doc.startswith(f"{cls.__name__}("), "the docstring that dataclass makes"
    declared = declaration(cls.signature).outputs
    assert cls.infer is not Op.infer or declared, "it has no shape rule"


CODE = re.compile(r"^[EW]\d{3}$")


@cache
def codes_in_source() -> dict[str, set[str]]:
    """Return the modules that mention each diagnostic code."""
    found: dict[str, set[str]] = {}
    for module, path in MODULES.items():
        if module == "base.codes":
            continue
        for node in nodes(path):
            value = node.value if isinstance(node, ast.Constant) else None
            if isinstance(value, str) and CODE.match(value):
                found.setdefault(value, set()).add(module)
    return found


def test_every_code_in_the_source_is_listed() -> None:
    assert {c: m for c, m in codes_in_source().items() if c not in CODES} == {}


def test_every_listed_code_is_used() -> None:
    assert sorted(set(CODES) - set(codes_in_source())) == []


@each_row("code", list(CODES))
def test_every_diagnostic_says_what_to_do(code: str) -> None:
    title, hint = CODES[code]
    assert len(hint) < 90
    assert hint or code == "E700"  # each mistake in a command line names its own mend
    assert "\n" not in hint
    assert hint != title
    assert Diagnostic(code, "error", "m").hint == hint
    assert Diagnostic(code, "error", "m", hint="better").hint == "better"


# One name for one thing: class names and numeric constants across the package.


def classes(tree: Iterable[ast.AST]) -> Iterator[str]:
    """Class names without the underscore; an operation's private base beside it is left out."""
    found = [n for n in tree if isinstance(n, ast.ClassDef)]
    names = {n.name for n in found}
    bases = {ast.unparse(b) for n in found for b in n.bases}
    for name in names:
        if name not in bases or not name.startswith("_") or name[1:] not in names:
            yield name.lstrip("_")


def number(node: ast.expr) -> float | None:
    """The value of an expression of plain numbers, None for others."""
    plain = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop)
    if not all(isinstance(n, plain) for n in ast.walk(node)):
        return None
    value = eval(compile(ast.Expression(node), "", "eval"))
    return value if isinstance(value, int | float) else None


def constants(tree: ast.Module) -> Iterator[tuple[str, float]]:
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                pairs: Iterable[tuple[ast.expr, ast.expr]] = [(target, node.value)]
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    pairs = zip(target.elts, node.value.elts, strict=True)
                for name, expression in pairs:
                    value = number(expression)
                    if isinstance(name, ast.Name) and name.id.isupper() and value is not None:
                        yield name.id.lstrip("_"), value


def test_class_names_are_unique() -> None:
    homes: dict[str, list[str]] = {}
    for module, path in MODULES.items():
        for name in classes(nodes(path)):
            homes.setdefault(name, []).append(module)
    assert [f"{name}: {', '.join(m)}" for name, m in homes.items() if len(m) > 1] == []


def test_constants_of_one_name_are_one_number() -> None:
    values: dict[str, dict[str, float]] = {}
    for module, path in MODULES.items():
        for name, value in constants(nodes(path)[0]):
            values.setdefault(name, {})[module] = value
    unlike = {name: v for name, v in values.items() if len(set(v.values())) > 1}
    assert [f"{name}: {v}" for name, v in unlike.items()] == []


def test_what_counts_as_a_name() -> None:
    beside = "class _Gather(Op): pass\nclass Gather(_Gather): pass\nclass _Pad: pass"
    assert sorted(classes(ast.walk(ast.parse(beside)))) == ["Gather", "Pad"]
    numbers = "LONG = 1 << 20\n_FEW: int = -3\nNAMES = ('a',)\nsmall = 1\nTEXT = 'x'\nA, B = 1, 2"
    found = list(constants(ast.parse(numbers)))
    assert found == [("LONG", 1 << 20), ("FEW", -3), ("A", 1), ("B", 2)]
