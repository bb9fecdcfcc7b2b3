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

from irdeconv.base.errors import ArgumentTypeError, Diagnostic, did_you_mean
from irdeconv.base.opening import shown
from irdeconv.base.synonyms import OPTIONS

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
_INSTEAD = {  # of arguments that functions do not have
    "file filename out output path save": "irdeconv.write(result, path) writes a model",
    "input_shape shape shapes sizes": "irdeconv.infer(model, shapes) gives a model other shapes",
    "certify probe prove": "irdeconv.certify(model, lowered) proves a lowering",
    "report page": "irdeconv.graph_page(result) draws a page",
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
            raise _unbound(function, options, str(e)) from None
        for name in (n for n in given if n in declared):
            _require(function.__name__, name, given[name], *declared[name])
        return function(*args, **options)

    return call  # type: ignore[return-value]


def _require(function: str, name: str, value: Any, text: str, classes: tuple[Any, ...]) -> None:
    """Raise ArgumentTypeError for a value of other classes, or of none of the texts among them."""
    choices = [c for c in classes if isinstance(c, str)]
    letters = isinstance(value, str | bytes)  # not meant as a sequence of them
    types = tuple(c for c in classes if c not in choices and (c is not Iterable or not letters))
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
    hint = f"help(irdeconv.{function}) describes the arguments"
    if text.startswith("Mapping[str, str | Sequence[int"):
        message = message.replace(text, "shapes by name")
        hint = f'the shape of an input x is {name}={{"x": [1, 3, 64, 64]}}'
    if isinstance(value, str) and text.startswith("Sequence[str"):
        message, hint = f'{name} is a list of names, not the text "{value}"', f'["{value}"]'
    raise ArgumentTypeError(Diagnostic("E700", "error", message, hint=hint))


def _unbound(function: Callable[..., Any], options: Iterable[str], why: str) -> ArgumentTypeError:
    """Return the error of arguments that a function does not have, or that it lacks."""
    name, known = function.__name__, [*signature(function).parameters]
    message, hint = f"{name}: {why}", f"it is {name}({', '.join(known)})"
    for option in (o for o in options if o not in known):
        message = f'{name} has no argument "{option}"'
        others = OPTIONS.get(option.replace("_", "-"), f"--{option}").split(" | ")
        meant = [k for o in others for k in known if k in (o[2:], f"{o[2:]}s", f"{o[2:]}_")]
        own = next((f for key, f in _INSTEAD.items() if option in key.split()), hint)
        hint = did_you_mean((meant or [option])[0], known, 0.7) or own
        break
    return ArgumentTypeError(Diagnostic("E700", "error", message, hint=hint))


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
