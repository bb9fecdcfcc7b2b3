"""Calls that do not fit a function: message and hint."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, Signature, signature
from typing import Any

from irdeconv.base.synonyms import OPTIONS
from irdeconv.base.words import did_you_mean

_TEXT = 'pathlib.Path(path).write_text({}, "utf-8")'
_JSON = "json.dump(irdeconv.{}(...).to_dict(), file)"
# How a path is written to that a function does not take; other results are models.
_SAVES = {
    "dump": _TEXT.format("irdeconv.dump(model)"),
    "graph_page": _TEXT.format("irdeconv.graph_page(model).to_html()"),
    "certify": _TEXT.format("irdeconv.certify(model, lowered).to_json()"),
    "run": "numpy.savez(path, **irdeconv.run(model, inputs))",
    "validate": "json.dump([d.to_dict() for d in irdeconv.validate(model)], file)",
    **dict.fromkeys(
        ("compare", "inspect", "explain", "bench", "operations", "check_certificate"), _JSON
    ),
}
_INSTEAD = {  # of arguments that functions do not have
    "input_shape shape shapes sizes": "irdeconv.infer(model, shapes) gives a model other shapes",
    "certify probe prove": "irdeconv.certify(model, lowered) proves a lowering",
    "report page": "irdeconv.graph_page(result) draws a page",
}
_DEFAULTS_SHOWN = 12  # parameters that a hint shows with their defaults
_PATHS = "file filename out output path save output_path dest"


def misfit(
    function: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any], why: str
) -> tuple[str, str]:
    """Return message and hint for arguments that a function does not have, or that it lacks."""
    name, of = _name(function), signature(function).parameters
    known = [n for n in of if n != "self"]
    hint = f"it is {name}{_shown([of[n] for n in known])}"
    for option, value in ((o, v) for o, v in options.items() if o not in known):
        return f'{name} has no argument "{option}"', _instead(name, option, value, known) or hint
    places = [n for n in positional(function) if n != "self"]
    more = args[len(places) :]
    if not more:
        return why if why.startswith(function.__qualname__) else f"{name}: {why}", hint
    named = [f"{n}=" for n in known if n not in places]
    if isinstance(more[0], str | os.PathLike) and os.path.splitext(more[0])[1]:
        hint = f'write path="{os.fspath(more[0])}"' if "path" in known else _saved(name)
    elif named:
        hint = f"arguments after {places[-1] if places else '*'} are named: {', '.join(named)}"
    some = f"{len(places)} argument{'s' * (len(places) != 1)}"
    return f"{name} takes {some} without a name, {len(args)} are given", hint


def positional(function: Callable[..., Any]) -> list[str]:
    """Return the parameters that are given without a name."""
    of = signature(function).parameters.values()
    return [p.name for p in of if p.kind is not Parameter.KEYWORD_ONLY]


def _shown(parameters: Sequence[Parameter]) -> str:
    """Return parameters in brackets as Python writes them, of many the names."""
    if len(parameters) > _DEFAULTS_SHOWN:
        return f"({', '.join(f'{p.name}=' for p in parameters[:_DEFAULTS_SHOWN])}, ...)"
    return str(Signature([p.replace(annotation=Parameter.empty) for p in parameters]))


def _instead(name: str, option: str, value: object, known: Sequence[str]) -> str | None:
    """Return what to write for an argument that a function does not have."""
    others = OPTIONS.get(option.replace("_", "-"), f"--{option}").split(" | ")
    meant = [k for o in others for k in known if k in (o[2:], f"{o[2:]}s", f"{o[2:]}_")]
    near = did_you_mean((meant or [option])[0], known, 0.7)
    if not near and option in _PATHS.split():
        return _saved(name)
    instead = near or next((f for key, f in _INSTEAD.items() if option in key.split()), None)
    # An array or a shape by the name of an input belongs into a mapping.
    of = "inputs" if meant == ["inputs"] or hasattr(value, "__array__") else "shapes"
    shape = of == "inputs" or isinstance(value, list | tuple)
    by_name = shape and of in known and (meant == ["inputs"] or not instead)
    return f'write {of}={{"{option}": ...}}' if by_name else instead


def _saved(name: str) -> str:
    kept = _SAVES.get(name, "irdeconv.write(result, path) writes a model")
    return kept.format(name)


def _name(function: Callable[..., Any]) -> str:
    *of, name = function.__qualname__.rpartition("<locals>.")[2].split(".")
    return of[-1] if name == "__init__" else ".".join([*of, name])
