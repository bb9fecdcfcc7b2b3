"""One name for one thing: class names and numeric constants across the package."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from support.sources import imports, parsed


def package() -> dict[str, ast.Module]:
    return {module: parsed(path) for module, path in imports().files.items()}


def classes(tree: ast.Module) -> Iterator[str]:
    """Class names without the underscore; an operation's private base beside it is left out."""
    found = [n for n in ast.walk(tree) if isinstance(n, ast.ClassDef)]
    names = {n.name for n in found}
    bases = {ast.unparse(b) for n in found for b in n.bases}
    for name in names:
        if name not in bases or not name.startswith("_") or name[1:] not in names:
            yield name.lstrip("_")


def number(node: ast.expr) -> float | None:
    """What an expression of plain numbers stands for."""
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
    for module, tree in package().items():
        for name in classes(tree):
            homes.setdefault(name, []).append(module)
    assert [f"{name}: {', '.join(m)}" for name, m in homes.items() if len(m) > 1] == []


def test_constants_of_one_name_are_one_number() -> None:
    values: dict[str, dict[str, float]] = {}
    for module, tree in package().items():
        for name, value in constants(tree):
            values.setdefault(name, {})[module] = value
    unlike = {name: v for name, v in values.items() if len(set(v.values())) > 1}
    assert [f"{name}: {v}" for name, v in unlike.items()] == []


def test_what_counts_as_a_name() -> None:
    beside = "class _Gather(Op): pass\nclass Gather(_Gather): pass\nclass _Pad: pass"
    assert sorted(classes(ast.parse(beside))) == ["Gather", "Pad"]
    numbers = "LONG = 1 << 20\n_FEW: int = -3\nNAMES = ('a',)\nsmall = 1\nTEXT = 'x'\nA, B = 1, 2"
    found = list(constants(ast.parse(numbers)))
    assert found == [("LONG", 1 << 20), ("FEW", -3), ("A", 1), ("B", 2)]
