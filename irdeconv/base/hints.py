"""Hints for attributes, keys and calls that public objects do not have.

`attributes.txt` has a line for each meaning: answers, and the names that people try. An answer is
an attribute (`spec().shape`) of objects that have its first name, or `NAME? text` for objects that
have NAME; `{}` is the object. The first answer that fits counts, of the object or else of a part.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable, Iterator
from dataclasses import FrozenInstanceError
from functools import cache, wraps
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar

from irdeconv.base.notebook import brief
from irdeconv.base.signatures import misfit
from irdeconv.base.words import did_you_mean, nearest

C = TypeVar("C", bound=type)
F = TypeVar("F", bound=Callable[..., Any])
_NAMES_SHOWN = 12  # names of an object that a hint lists
_PLACES_SHOWN = 2  # of an object that have an attribute
_CALL = "__call__"


class UnknownAttributeError(AttributeError):
    """An attribute that an object does not have; only its text searches for a hint."""

    def __init__(self, obj: Any, name: str, hint: Callable[[], str] | None = None) -> None:
        kind = f"module '{obj}'" if isinstance(obj, str) else f"'{type(obj).__name__}' object"
        text = f"{kind} has no attribute '{name}'"
        super().__init__(text, name=None, obj=None)  # else Python adds a guess of its own
        self._hint = hint or (lambda: instead(obj, name))

    def __str__(self) -> str:
        return f"{self.args[0]}; {self._hint()}"

    def __reduce__(self) -> tuple[Any, ...]:
        return AttributeError, (str(self),)

    _render_traceback_ = brief


class UnchangeableError(FrozenInstanceError):
    """An attribute of an object that does not change is assigned."""

    _render_traceback_ = brief


class Misuse:
    """The error of a wrong key or call, which the module of errors sets."""

    error: Callable[[str, str], Exception] = TypeError


class _Misnomer:
    """A name of the table that is no attribute of a class."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, obj: Any, cls: type) -> Any:
        if obj is None:
            raise AttributeError(f"type object '{cls.__name__}' has no attribute '{self._name}'")
        raise UnknownAttributeError(obj, self._name)


def hinted(cls: C) -> C:
    """Give a class errors with hints for names, keys, calls and arguments that it does not have."""
    for name, method in list(vars(cls).items()):
        if isinstance(method, FunctionType) and name[0] != "_":
            setattr(cls, name, named(method))
    return hinted_calls(hinted_attributes(cls))


def hinted_attributes(cls: C) -> C:
    """Give errors of names that a class does not have hints."""
    cls.__getattr__ = _no_attribute  # type: ignore[attr-defined]
    return cls


def constructor(cls: C) -> C:
    """Give errors of the arguments of a class hints."""
    cls.__init__ = named(cls.__init__)  # type: ignore[misc]
    return cls


def named(function: F) -> F:
    """Give errors of the arguments of a function hints; much quicker than to check them first."""

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        try:
            return function(*args, **options)
        except TypeError as e:
            if e.__traceback__ is None or e.__traceback__.tb_next is not None:
                raise  # of the function's own
            raise Misuse.error(*misfit(function, args[1:], options, str(e))) from None

    return call  # type: ignore[return-value]


def hinted_names(cls: C) -> C:
    """Do so for a class whose attributes are read too often: hints only for names of the table.

    With `__getattr__` every attribute takes three times as long.
    """
    has = {*dir(cls), *(n for c in cls.__mro__ for n in vars(c).get("__annotations__", ()))}
    for name in _table().keys() - has - {*dir(builtins), _CALL}:  # annotations name builtins
        setattr(cls, name, _Misnomer(name))
    cls.__dir__ = public_names  # type: ignore[assignment]
    return cls


def hinted_calls(cls: C) -> C:
    """Give a class errors with hints for keys, calls and changes."""
    own: Any = cls
    if issubclass(cls, tuple):
        own.__getitem__ = _item
    elif not hasattr(cls, "__getitem__"):
        own.__getitem__ = _no_item
    if _CALL not in vars(cls):
        own.__call__ = _no_call
    if getattr(cls, "__dataclass_params__", None) and own.__dataclass_params__.frozen:
        own.__setattr__ = own.__delattr__ = _no_change
    return cls


def _no_attribute(self: Any, name: str) -> Any:
    if name.startswith("_"):  # probes of copy, pickle, IPython, NumPy
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
    if hasattr(type(self), name):  # a property that failed with an AttributeError
        return object.__getattribute__(self, name)
    raise UnknownAttributeError(self, name)


def _a(obj: Any) -> str:
    name = type(obj).__name__
    return f"an {name}" if name[0] in "AEIOU" else f"a {name}"


def _no_item(self: Any, key: Any) -> Any:
    raise Misuse.error(f"{_a(self)} has no items: [{key!r:.60}]", by_key(self, key))


def _item(self: Any, key: Any) -> Any:
    if isinstance(key, str):
        raise Misuse.error(f"{_a(self)} has no keys: [{key!r:.60}]", by_key(self, key))
    return tuple.__getitem__(self, key)


def _no_call(self: Any, *args: Any, **options: Any) -> Any:
    message = f"{_a(self)} is not a function"
    raise Misuse.error(message, instead(self, _CALL))


def _no_change(self: Any, name: str, value: object = None) -> None:
    if name not in public_names(self):
        raise UnknownAttributeError(self, name)
    copy = f"dataclasses.replace({_variable(self)}, {name}=...)"
    hint = f"{copy} is a changed copy"
    if hasattr(self, "to_attributes"):
        hint = f"write graph.replace_op(node.id, {copy})"
    raise UnchangeableError(f"cannot assign to field '{name}'; {hint}")


def by_key(obj: Any, key: Any) -> str:
    """Return what to write for `obj[key]`."""
    if isinstance(key, str):
        return f"write {_variable(obj)}.{key}" if key in public_names(obj) else instead(obj, key)
    name, shown = _variable(obj), f"{key!r:.20}" if isinstance(key, int) else "..."
    if hasattr(type(obj), "__iter__"):
        return f"write list({name})[{shown}]"
    lists = [text for text in _meant(obj, "items", name) if text[-1] != ")"]
    return f"write {lists[0]}[{shown}]" if lists else _listed(obj)


def instead(obj: Any, name: str) -> str:
    """Return what to write for `obj.name`: a near name, one of the same meaning, all names."""
    called = _variable(obj)
    texts = list(_meant(obj, name, called))[:1]
    if not texts and (near := did_you_mean(name, public_names(obj), 0.8)):
        return near
    if name.lower() not in _table():
        name = next(iter(nearest(name, _table(), 0.85)), name)
    texts = texts or list(_meant(obj, name, called))[:1]
    texts = texts or list(dict.fromkeys(_of_parts(obj, name, called, depth=2)))[:_PLACES_SHOWN]
    if texts:
        return texts[0] if " " in texts[0].partition("(")[0] else f"write {' or '.join(texts)}"
    return did_you_mean(name, public_names(obj)) or _listed(obj)


def _meant(obj: Any, name: str, called: str) -> Iterator[str]:
    """Yield the answers that fit an object, which is written as `called`."""
    names = public_names(obj)
    for answer in _table().get(name.lower(), ()):
        condition, mark, text = answer.partition("? ")
        if mark and condition in names:
            yield text.replace("{}", called)
        elif not mark and _has(obj, answer):
            yield f"{called}.{answer}"


def _has(obj: Any, path: str) -> bool:
    """Whether an object has an attribute, and that one the next, up to a call."""
    for part in path.split("."):
        name, call, _ = part.partition("(")
        if name not in public_names(obj):
            return False
        if call:
            return True
        obj = getattr(obj, name, None)
    return True


def _of_parts(obj: Any, name: str, called: str, depth: int) -> Iterator[str]:
    """Yield the spellings of an attribute that parts of an object have."""
    deeper = []
    for field, value in _fields(obj):
        part = f"{called}.{field}"
        if isinstance(value, list | tuple) and value and not hasattr(type(value), "_fields"):
            part, value = f"{part}[0]", value[0]
        if type(value).__module__.split(".")[0] == __name__.split(".")[0]:
            if name in public_names(value):
                method = callable(getattr(type(value), name, None))
                yield f"{part}.{name}{'()' if method else ''}"
            yield from list(_meant(value, name, part))[:1]
            deeper.append((value, part))
    for value, part in deeper * (depth > 1):
        yield from _of_parts(value, name, part, depth - 1)


def public_names(obj: Any) -> set[str]:
    """Return the names of an object's public attributes."""
    if hasattr(obj, "to_attributes"):
        return {"to_attributes", "type", "version", *getattr(obj, "__dict__", ())} - {"misfit"}
    of, no = type(obj), ("_", "json_", *dir(tuple) * isinstance(obj, tuple))
    own = {n for n in dir(of) if not n.startswith(no) and hasattr(of, n)}
    return own | {n for n in getattr(obj, "__dict__", ()) if n[0] != "_"}


def _fields(obj: Any) -> Iterator[tuple[str, Any]]:
    """Yield name and value of the public fields."""
    slots = getattr(type(obj), "__slots__", ())
    for name in (*getattr(obj, "_fields", ()), *slots, *getattr(obj, "__dict__", ())):
        if not name.startswith("_"):
            yield name, getattr(obj, name, None)


def _listed(obj: Any) -> str:
    """Return the names of fields, properties and methods as a hint."""
    fields = dict(_fields(obj))
    names = sorted(public_names(obj), key=lambda n: (n not in fields, n))
    methods = {n for n in names if n not in fields and callable(getattr(type(obj), n, None))}
    if len(names) - len(methods) >= _NAMES_SHOWN // 3:
        names = [n for n in names if n not in methods]
    shown = ", ".join(f"{n}{'()' * (n in methods)}" for n in names[:_NAMES_SHOWN])
    return f"it has {shown}{', ...' if len(names) > _NAMES_SHOWN else ''}"


def _variable(obj: Any) -> str:
    """Return how examples call an object: a BenchReport `report`, a Graph `graph`."""
    if hasattr(type(obj), "to_attributes"):
        return "op"
    words: list[str] = re.findall("[A-Z][a-z]*", type(obj).__name__) or [type(obj).__name__]
    return words[0 if words[-1] in ("Content", "Onnx") else -1].lower()


@cache
def _table() -> dict[str, list[str]]:
    """Return the answers by name."""
    found: dict[str, list[str]] = {}
    for line in (Path(__file__).parent / "attributes.txt").read_text("utf-8").splitlines():
        answers, _, names = line.rpartition(": ")
        for name in names.split():
            found.setdefault(name, []).extend(filter(None, answers.split(" | ")))
    return found
