"""Input values from the command line: files, images, generated data.

Also runs a graph in OpenVINO, for verbs with a choice of runtime.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

import irdeconv as ird
from irdeconv.base.errors import (
    Diagnostic,
    IrdeconvError,
    LimitError,
    UnsupportedError,
    count,
    did_you_mean,
    misused,
)
from irdeconv.base.opening import first_bytes, missing
from irdeconv.cli.console import Console
from irdeconv.cli.model import input_names, unknown_input
from irdeconv.formats.arrays import SavedArrays, UnreadableArray, read_npy
from irdeconv.formats.kinds import BEGIN, kind_of
from irdeconv.ir.dtypes import ElementType
from irdeconv.ir.graph import Graph
from irdeconv.ir.spec import Array, Spec, example_shape, is_static
from irdeconv.runtime.budget import memory_limit
from irdeconv.runtime.feeds import Binder

SHOWN_ARRAYS = 8  # names of arrays in a message
MADE_AT_ONCE = 1 << 16  # elements that are made at a time, in 64 bits
Generator = Callable[[np.random.Generator, slice, ElementType], Any]


def _rand(rng: np.random.Generator, part: slice, dtype: ElementType) -> Any:
    size: int = part.stop - part.start
    return rng.random(size) if dtype.is_real else rng.integers(0, min(10, _top(dtype) + 1), size)


def _randn(rng: np.random.Generator, part: slice, dtype: ElementType) -> Any:
    values = rng.standard_normal(part.stop - part.start)
    if dtype.is_real:
        return values
    low = -_top(dtype) if dtype.kind == "int" else 0
    return np.clip(np.rint(values), low, _top(dtype))


def _arange(rng: np.random.Generator, part: slice, dtype: ElementType) -> Any:
    values = np.arange(part.start, part.stop)
    return values if dtype.is_real else values % (_top(dtype) + 1)


GENERATORS: dict[str, Generator] = {
    "rand": _rand,
    "randn": _randn,
    "ones": lambda rng, part, dtype: np.ones(1),
    "zeros": lambda rng, part, dtype: np.zeros(1),
    "arange": _arange,
}


def _top(dtype: ElementType) -> int:
    """Return the largest value of an integer or boolean type, as far as int64 goes."""
    if dtype.kind == "bool":
        return 1
    return int(min(2 ** (dtype.bits - (dtype.kind == "int")), 2**62)) - 1


def gather(
    graph: Graph,
    items: Iterable[str],
    seed: int,
    console: Console,
    *,
    limit: int | None = None,
    without: Collection[str] = (),
) -> dict[str, Array]:
    """Return the value of every input; inputs that no item names are random numbers.

    Those in `without` have values already, and may have any number of rows.

    Raises UsageError for unknown names, arrays that do not fit and open shapes, LimitError if the
    inputs alone take more than `limit` bytes.
    """
    _require_room(graph, limit)
    found: dict[str, Array | str] = {}
    for item in items:
        for name, value in _assignments(graph, item, found).items():
            if name in found:
                raise misused(f'input "{name}" is given twice', "leave one of them out")
            found[name] = value
    out = {}
    for index, (name, node) in enumerate(zip(graph.inputs, graph.parameters, strict=True)):
        if name in without:
            continue
        value = found.get(name, "rand")
        if isinstance(value, str):
            console.log(f"input {name}: {value}, seed {seed}")
            out[name] = generate(value, node.spec(), seed, index, name)
        else:
            out[name] = typed(value, node.spec())
    if not without:
        Binder.of(graph).bind(out)
    return out


def _require_room(graph: Graph, limit: int | None) -> None:
    """Raise LimitError (E602) before inputs are made that no run within the limit can take.

    Without one it is the machine's memory.
    """
    need = 0
    for node in graph.parameters:
        spec = node.spec()
        if is_static(spec.shape) and spec.dtype is not None:
            need += math.prod(spec.shape) * spec.dtype.container.itemsize
    smaller = "give smaller shapes with --shape where they are open"
    for most, phrase, hint in (
        (memory_limit(limit), "the limit is", "allow more with --max-memory"),
        (_memory_there(), "the machine has", smaller),
    ):
        if most is not None and need > most:
            message = f"the inputs alone need {need:,} bytes, {phrase} {most:,}"
            raise LimitError(Diagnostic("E602", "error", message, hint=hint))


def _memory_there() -> int | None:
    """Return the bytes of the machine's memory, if they are available."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def generate(kind: str, spec: Spec, seed: int, index: int, name: str) -> Array:
    """Return generated data; each input has its own stream, so order does not matter."""
    if not is_static(spec.shape) or spec.dtype is None:
        hint = f"make it exact, such as --shape '{name}{example_shape(spec.shape)}'"
        raise misused(f'input "{name}" is {spec}: its shape is open', hint)
    if spec.dtype.kind == "string":
        raise misused(f'input "{name}" holds strings: give them as {name}=@file.npy')
    rng, out = np.random.default_rng([seed, index]), np.empty(spec.shape, spec.dtype.container)
    flat = out.reshape(-1)
    for start in range(0, out.size, MADE_AT_ONCE):
        part = slice(start, min(start + MADE_AT_ONCE, out.size))
        with np.errstate(over="ignore"):  # a narrow type may count to infinity
            flat[part] = GENERATORS[kind](rng, part, spec.dtype).astype(out.dtype)
    return out


def specialize(graph: Graph, inputs: dict[str, Array], *, every: bool = False) -> Graph:
    """Return the graph inferred for the arrays' shapes if an input's shape is open.

    With `every` also if it is exact: the model is reshaped.
    """
    shapes = {
        name: inputs[name].shape
        for name, node in zip(graph.inputs, graph.parameters, strict=True)
        if every or not node.spec().static
    }
    return ird.infer(graph, shapes=shapes) if shapes else graph


def _assignments(graph: Graph, item: str, found: dict[str, Array | str]) -> dict[str, Array | str]:
    known = input_names(graph)
    # Names may contain "=": the longest known name that fits wins.
    for alias in sorted(known, key=len, reverse=True):
        if item.startswith(f"{alias}="):
            name = known[alias]
            return {name: _value(item[len(alias) + 1 :], graph, name)}
    if item in GENERATORS:
        return {name: item for name in graph.inputs if name not in found}
    path = item.removeprefix("@")
    if path.endswith(".npz"):
        return dict(_npz(path, graph, known))
    if not Path(path).exists():
        raise _no_value(item, path, graph)
    free = [name for name in graph.inputs if name not in found]
    if not free:
        inputs = f"{count(len(graph.inputs), 'input')} ({', '.join(graph.inputs)})"
        message = f"{item}: every input has a value already; the model has {inputs}"
        raise misused(message, "leave it out")
    return {free[0]: _value("@" + path, graph, free[0])}


def _no_value(item: str, path: str, graph: Graph) -> IrdeconvError:
    """Return the error of a word that gives no input a value."""
    if item.endswith("]"):
        return misused(f'"{item}" is no value but a shape', f"write it as --shape '{item}'")
    if "=" in item:
        return unknown_input(item.split("=")[0], graph)
    if item in input_names(graph):
        message = f'the input "{item}" is given no value'
        return misused(message, f"for example: {item}=ones, {item}=@{item}.npy")
    if item.startswith("@") or "/" in path or path.endswith((".npy", ".png", ".jpg", ".jpeg")):
        return missing(path)
    message = f'"{item}" is neither NAME=VALUE nor a file nor a kind of data'
    near = did_you_mean(item, [*GENERATORS, *input_names(graph)])
    return misused(message, near or f"kinds of data are {', '.join(GENERATORS)}")


def _value(text: str, graph: Graph, name: str) -> Array | str:
    if text in GENERATORS:
        return text
    if not text.startswith("@"):
        hint = did_you_mean(text, GENERATORS) or f"a file is written as {name}=@{text}"
        raise misused(f"{name}={text}: neither @FILE nor one of {', '.join(GENERATORS)}", hint)
    path = text[1:]
    if path.endswith(".npz"):
        with open_npz(path) as arrays:
            if name in arrays or len(arrays) == 1:
                return arrays[name if name in arrays else next(iter(arrays))]
            raise misused(f'{path} has no array "{name}"', did_you_mean(name, arrays))
    if path.endswith(".npy"):
        with naming_file(path, ".npy"):
            return read_npy(path)
    return _image(path, graph.parameters[graph.inputs.index(name)].spec(), name)


@contextmanager
def open_npz(path: str) -> Iterator[SavedArrays]:
    """Open an .npz for the time of a `with`; UsageError if it is none, or is damaged."""
    with naming_file(path, ".npz"), SavedArrays(path) as arrays:
        yield arrays


@contextmanager
def naming_file(path: str, suffix: str) -> Iterator[None]:
    """Name the file and its kind in the error of a file without plain arrays."""
    try:
        yield
    except UnreadableArray as e:
        kind = kind_of(first_bytes(path, BEGIN), path).name
        message = f"{path} is {kind}, not {suffix}"
        if suffix in kind:
            message = f"{path} cannot be read: {e}"
        hint = "np.save writes an array as .npy, np.savez several as .npz"
        raise misused(message, hint) from None


def _npz(path: str, graph: Graph, known: dict[str, str]) -> dict[str, Array]:
    with open_npz(path) as arrays:
        named = {known[k]: arrays[k] for k in arrays if k in known}
        if named:
            return named
        if len(arrays) == len(graph.inputs):
            return dict(zip(graph.inputs, arrays.values(), strict=True))
        has = f"{count(len(arrays), 'array')} ({_some(arrays)})"
    inputs = f"{count(len(graph.inputs), 'input')} ({', '.join(graph.inputs)})"
    message = f"{path} has {has}, none named like an input; the model has {inputs}"
    raise misused(message, f"name the arrays so: np.savez(file, {'=..., '.join(graph.inputs)}=...)")


def _some(names: Iterable[str]) -> str:
    """Return names in a line; of very many the first."""
    first = list(islice(names, SHOWN_ARRAYS + 1))
    return ", ".join([*first[:SHOWN_ARRAYS], *(["..."] if len(first) > SHOWN_ARRAYS else [])])


def typed(array: Array, spec: Spec) -> Array:
    """Return the bytes of types that `.npy` files do not know (bfloat16, float8) as such values."""
    container = None if spec.dtype is None else spec.dtype.container
    if container is None or array.dtype.kind != "V" or array.dtype.itemsize != container.itemsize:
        return array
    return array.view(container)


def _image(path: str, spec: Spec, name: str) -> Array:
    """Return an image resized to the input; floats are 0..1, integers 0..255."""
    from irdeconv.cli import pictures

    if Path(path).is_dir():
        message = f'"{path}" is a folder, not a file with the values of input "{name}"'
        raise misused(message, f"name the file in it: {name}=@{path}/x.npy")
    shape = spec.shape
    if shape is None or len(shape) not in (3, 4):
        raise misused(f'input "{name}" is {spec}: an image needs [N,C,H,W] or [N,H,W,C]')
    *lead, a, b, c = shape
    first = a in (1, 3)
    channels, height, width = (a, b, c) if first else (c, a, b)
    if channels not in (1, 3):
        raise misused(f'input "{name}" is {spec}: an image has 1 or 3 channels')
    with pictures.opened(path, hint="np.save writes an array as .npy") as opened:
        picture = opened.convert("RGB" if channels == 3 else "L")
    size = tuple(
        d if isinstance(d, int) else p for d, p in zip((width, height), picture.size, strict=True)
    )
    pixels = np.asarray(picture.resize((size[0], size[1]))).reshape(size[1], size[0], channels)
    values = pixels.transpose(2, 0, 1) if first else pixels
    if spec.dtype is not None and spec.dtype.is_real:
        values = values / np.float32(255)
    return values.reshape((1,) * len(lead) + values.shape)


def outputs_of(graph: Graph, inputs: Mapping[str, Array]) -> list[Array]:
    """Return the outputs that OpenVINO computes, in order; UnsupportedError (E506) if it cannot.

    Raises UsageError if the package is missing.
    """
    from irdeconv.runtime.peers import Source, peers

    with peers(["openvino"], Source(graph), inputs) as (openvino,):
        if openvino.run is None:
            message = f"OpenVINO does not run the model: {openvino.problem}"
            raise UnsupportedError(Diagnostic("E506", "error", message))
        return [array.copy() for array in openvino.run()]
