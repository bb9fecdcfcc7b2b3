"""Types of the arguments of public functions: a wrong one is an error that names the argument."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache, wraps
from inspect import signature, unwrap
from numbers import Integral, Real
from typing import Any, Literal, TypeVar, get_args, get_origin

import numpy as np

from irdeconv.base.errors import ArgumentTypeError, misused
from irdeconv.base.opening import shown
from irdeconv.base.signatures import misfit, positional

T = TypeVar("T", bound=Callable[..., Any])
# Classes by the words of annotations; other words are names of classes.
_CLASSES: dict[str, tuple[type, ...]] = {
    "None": (type(None),),
    "bool": (Integral, np.bool_),
    "False": (bool,),
    "str": (str,),
    "bytes": (bytes,),
    "int": (Integral,),
    "float": (Real,),
    "PathLike": (os.PathLike,),
    "Mapping": (Mapping,),
    "Sequence": (Iterable,),
    "tuple": (tuple, list),
}
_NAMES = "Sequence[str]"
_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?")
# Values of arguments, for hints.
_EXAMPLES = {
    "shapes sizes": '{"x": [1, 3, 64, 64]}',
    "names": '{"old": "new"}',
    "pattern": '("^up(.*)", r"deconv\\1")',
    "inputs": '{"x": array}',
    "only": '"up*"',
    "layer": '"up1"',
    "form": '"stacked"',
    "target": '"edgetpu"',
    "threads requests": "2",
    "solve": "[17, 17]",
    "max_memory": "2 * 2**30",
    "max_growth elide": "2**20",
    "time seconds timeout": "2.5",
    "iterations rounds warm_up max_checks": "10",
    "tolerance": '1e-3, tolerance={"mask": 1e-3}',
    "limits": "irdeconv.Limits(layers=2_000_000)",
    "seed": "0",
    "path": '"part.xml"',
    "weights": '"net.bin"',
    "comments": '{4: "the first deconvolution"}',
    "certificates": "irdeconv.certify(model, lowered)",
    "check": "lambda graph, inputs: ...",
}
# Aliases of annotations, in words that a caller can use.
_ALIASES = {
    "Place": "str | PathLike[str]",
    "Tolerance": "float | Mapping[str, float] | None",
    "ShapeLike": "str | Sequence[int | str | None]",
    "Weights": "str | PathLike[str] | bytes | False",
}


def checked(function: T) -> T:
    """Raise ArgumentTypeError (E700) for arguments of other types than the annotations name."""

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        declared, bind = _declared(function)
        try:
            given = bind(*args, **options).arguments
        except TypeError as e:
            for name, value in zip(positional(function), args, strict=False):
                if name in declared:
                    _require(function.__name__, name, value, *declared[name])
            why = misfit(function, args, options, str(e))
            raise misused(*why, kind=ArgumentTypeError) from None
        for name in (n for n in given if n in declared):
            _require(function.__name__, name, given[name], *declared[name])
        return function(*args, **options)

    return call  # type: ignore[return-value]


def _require(function: str, name: str, value: Any, text: str, classes: tuple[Any, ...]) -> None:
    """Raise ArgumentTypeError for a value of other classes, or of none of the texts among them."""
    choices = [c for c in classes if isinstance(c, str)]
    letters = isinstance(value, str | bytes)  # not meant as a sequence of them
    no_list = letters or isinstance(value, Mapping)
    types = tuple(c for c in classes if c not in choices and (c is not Iterable or not no_list))
    if value in choices if letters and choices else isinstance(value, types):
        names = value if _NAMES in text and isinstance(value, list | tuple) else ()
        odd = [v for v in names if not isinstance(v, str)]
        if not odd:
            return
        message = f"{name} holds {shown(odd[0])}, which is no name"
    elif letters and choices:
        message = f'{name} is "{value}"; it is {" or ".join(choices)}'
    else:
        message = f"expected {name}: {text}, got {type(value).__name__}: {shown(value)}"
    if text.startswith("Mapping[str, str | Sequence[int"):
        message = message.replace(text, "shapes by name")
    hint = _example(function, name, value, classes)
    if isinstance(value, str) and text.startswith("Sequence[str"):
        message = f'{name} is a list of names, not the text "{value}"'
        words = ", ".join(f'"{word}"' for word in re.split("[,; ]+", value) if word)
        hint = f"write {name}=[{words}]"
    raise misused(message, hint, kind=ArgumentTypeError)


def _example(function: str, name: str, value: Any, classes: tuple[Any, ...]) -> str:
    """Return a hint with a value that fits."""
    if isinstance(value, str) and {Integral, Real} & {*classes} and _NUMBER.fullmatch(value):
        return f"write {name}={value}"
    if function == "write" and name == "path":
        return "the model comes first: write(model, path)"
    found = next((v for names, v in _EXAMPLES.items() if name in names.split()), None)
    if found is None and np.bool_ in classes:
        found = "True"
    if found is None or function == "parse":
        return f"help(irdeconv.{function}) describes the arguments"
    return f"for example, {name}={found}"


@cache
def _declared(function: Callable[..., Any]) -> tuple[dict[str, tuple[str, tuple[Any, ...]]], Any]:
    """Return the annotations of plain classes, each with these, and how to bind arguments."""
    of, names, found = signature(function), unwrap(function).__globals__, {}
    for name, parameter in of.parameters.items():
        text = words = re.sub(r"\w+", lambda m: _ALIASES.get(m[0], m[0]), str(parameter.annotation))
        while "[" in words:
            words = re.sub(r"\[[^\[\]]*\]", "", words)
        aliases = {word: names.get(word) for word in words.split(" | ")}
        choices = {
            w: get_args(alias) for w, alias in aliases.items() if get_origin(alias) is Literal
        }
        classes = [_CLASSES.get(w) or choices.get(w) or (alias,) for w, alias in aliases.items()]
        every = tuple(c for some in classes for c in some)
        plain = (isinstance(c, type | str) and not getattr(c, "_is_protocol", False) for c in every)
        if Any not in every and all(plain):
            found[name] = text, every
    return found, of.bind
