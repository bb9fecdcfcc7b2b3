"""The rules that hold the code base together, checked on its sources."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import pytest

import irdeconv
import irdeconv.dialects
import irdeconv.ops
from irdeconv.codes import CODES
from irdeconv.errors import Diagnostic
from irdeconv.op import REGISTRY, Op

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "irdeconv"
FILE_LINES = 400
FUNCTION_LINES = 40
# Tables of data are exempt from the limit on a file's length.
TABLES = {"irdeconv/ops/catalog.py"}

# From the bottom up: a module may import from its own layer and from those above it in this list.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("codes", "source", "errors"),
    ("dtypes", "spec", "suggest", "plural", "extras", "attributes"),
    ("op", "declare", "geometry*", "packing", "constant"),
    ("kernels*",),
    ("ops*", "dialects*"),
    ("graph",),
    ("io*", "text*", "passes*", "runtime*", "importers*"),
    ("verify*", "inspection*", "explanation*", "benchmark*"),
    ("api",),
    ("cli*", "__main__"),
)

PUBLIC = [
    "Diagnostic",
    "ExecutionError",
    "FileAccessError",
    "Graph",
    "InferenceError",
    "InputError",
    "IrdeconvError",
    "LimitError",
    "LoweringError",
    "Spec",
    "UnsupportedError",
    "UsageError",
    "__version__",
    "bench",
    "compare",
    "compile",
    "convert",
    "dump",
    "explain",
    "infer",
    "inspect",
    "lower",
    "parse",
    "raise_",
    "read",
    "run",
    "validate",
    "write",
]


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(p for p in parts if p != "__init__")


MODULES = {module_name(p): p for p in sorted(PACKAGE.rglob("*.py"))}
PYTHON = sorted(p for d in ("irdeconv", "tests", "tools") for p in (ROOT / d).rglob("*.py"))


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def imported(path: Path) -> Iterator[str]:
    """Yield every module that a file imports, also in functions and for type checking."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute"
            for a in node.names:
                submodule = f"{node.module}.{a.name}".removeprefix("irdeconv.")
                yield f"irdeconv.{submodule}" if submodule in MODULES else node.module or ""


def layer(module: str) -> int | None:
    top = module.split(".")[0]
    for rank, patterns in enumerate(LAYERS):
        if any(fnmatchcase(top, p) for p in patterns):
            return rank
    return None


@pytest.mark.parametrize("module", sorted(set(MODULES) - {""}))
def test_imports_go_down(module: str) -> None:
    here = layer(module)
    assert here is not None, f"{module} has no place in LAYERS"
    for name in imported(MODULES[module]):
        if name.startswith("irdeconv."):
            there = layer(name.removeprefix("irdeconv."))
            assert there is not None, f"{name} has no place in LAYERS"
            assert there <= here, f"{module} imports {name}, which is in a higher layer"


def test_the_architecture_page_shows_the_layers() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    rows = [line.split("|")[2] for line in page.splitlines() if re.match(r"\| [a-z ]+ \| `", line)]
    said = [set(re.findall(r"`(\w+)", row)) for row in rows]
    *lower, api, cli = [{p.rstrip("*") for p in patterns} - {"__main__"} for patterns in LAYERS]
    assert said == [*lower, api | cli]


def test_only_the_graph_imports_networkx() -> None:
    users = {
        m for m, p in MODULES.items() if any(i.split(".")[0] == "networkx" for i in imported(p))
    }
    assert users == {"graph"}


@pytest.mark.parametrize("module", sorted(MODULES))
def test_products_of_matrices_are_calls_that_tests_can_watch(module: str) -> None:
    """conftest.py holds numpy.matmul and its like to np.errstate; operators would pass it by."""
    path = MODULES[module]
    assert not any(isinstance(node, ast.MatMult) for node in ast.walk(tree(path))), "`@`"


@pytest.mark.parametrize("path", PYTHON, ids=lambda p: str(p.relative_to(ROOT)))
def test_files_are_short(path: Path) -> None:
    if str(path.relative_to(ROOT)) not in TABLES:
        assert len(path.read_text("utf-8").splitlines()) <= FILE_LINES


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


@pytest.mark.parametrize("path", PYTHON, ids=lambda p: str(p.relative_to(ROOT)))
def test_functions_are_short(path: Path) -> None:
    lengths = [(f.name, (f.end_lineno or 0) - f.lineno + 1) for f in functions(path)]
    assert [(name, lines) for name, lines in lengths if lines > FUNCTION_LINES] == []


@pytest.mark.parametrize("module", sorted(MODULES))
def test_public_names_have_docstrings(module: str) -> None:
    bodies = tree(MODULES[module])
    assert ast.get_docstring(bodies), "the module has none"
    defs = (ast.FunctionDef, ast.ClassDef)
    public = [n for n in bodies.body if isinstance(n, defs) and not n.name.startswith("_")]
    assert [n.name for n in public if not ast.get_docstring(n)] == []


def test_no_unfinished_text() -> None:
    words = re.compile(r"\b(TBD|TODO|FIXME|XXX|HACK)\b")
    this = Path(__file__)
    found = [p for p in PYTHON if p != this and words.search(p.read_text("utf-8"))]
    assert found == []


OPERATIONS = sorted(set(REGISTRY.values()), key=lambda c: (c.type, c.version))


@pytest.mark.parametrize("cls", OPERATIONS, ids=lambda c: f"{c.type}-{c.version}")
def test_operation_is_described(cls: type[Op]) -> None:
    doc = (cls.__doc__ or "").strip()
    assert len(doc.splitlines()[0]) > 10
    assert not doc.startswith(f"{cls.__name__}("), "the docstring that dataclass makes"
    assert cls.infer is not Op.infer, "it has no shape rule"


def test_public_names_are_frozen() -> None:
    assert sorted(irdeconv.__all__) == sorted(PUBLIC)
    assert dir(irdeconv) == sorted(PUBLIC)
    for name in PUBLIC:
        assert getattr(irdeconv, name) is not None


def test_an_unknown_public_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'lowr'"):
        irdeconv.lowr  # noqa: B018


CODE = re.compile(r"^[EW]\d{3}$")


@cache
def codes_in_source() -> dict[str, set[str]]:
    """Return the modules that mention each diagnostic code."""
    found: dict[str, set[str]] = {}
    for module, path in MODULES.items():
        if module == "codes":
            continue
        for node in ast.walk(tree(path)):
            value = node.value if isinstance(node, ast.Constant) else None
            if isinstance(value, str) and CODE.match(value):
                found.setdefault(value, set()).add(module)
    return found


def test_every_code_in_the_source_is_listed() -> None:
    assert {c: m for c, m in codes_in_source().items() if c not in CODES} == {}


def test_every_listed_code_is_used() -> None:
    assert sorted(set(CODES) - set(codes_in_source())) == []


@pytest.mark.parametrize("code", CODES)
def test_every_diagnostic_says_what_to_do(code: str) -> None:
    title, hint = CODES[code]
    assert 0 < len(hint) < 90
    assert "\n" not in hint
    assert hint != title
    assert Diagnostic(code, "error", "m").hint == hint
    assert Diagnostic(code, "error", "m", hint="better").hint == "better"
