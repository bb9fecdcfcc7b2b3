"""Model inputs: from the caller's values to checked arrays in Parameter order.

Arrays of other packages become arrays of NumPy, or an error explains why they cannot.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from irdeconv.base.errors import Collector, UsageError, count, did_you_mean, misused
from irdeconv.ir.dtypes import ElementType
from irdeconv.ir.graph import Graph, Node
from irdeconv.ir.op import as_tuple
from irdeconv.ir.spec import Array, Interval, Shape, Spec, example_shape, format_shape, is_static

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


def generator(kind: str) -> Generator | None:
    """Return the generator of a name or of rand(LOW,HIGH), or None.

    Raises UsageError for text in the brackets that is not two finite numbers in order.
    """
    if not kind.startswith("rand("):
        return GENERATORS.get(kind)
    try:
        low, high = map(float, kind.removeprefix("rand(").removesuffix(")").split(","))
    except ValueError:
        low = high = math.nan
    if not (kind.endswith(")") and -math.inf < low <= high < math.inf):
        message = f"{kind}: the brackets need two finite numbers, the lower one first"
        raise misused(message, "for example: 'x=rand(-1,1)'")
    return partial(_between, low, high)


def _between(
    low: float, high: float, rng: np.random.Generator, part: slice, dtype: ElementType
) -> Any:
    size, top = part.stop - part.start, _top(dtype)
    least, hint = ~top if dtype.kind == "int" else 0, "it cannot hold these numbers"
    fits = bool(np.isfinite(np.array([low, high]).astype(dtype.container)).all())
    if not dtype.is_real:
        fits = low.is_integer() and high.is_integer() and least <= low <= high <= top
        hint = f"it has whole numbers from {least} to {top}"
    if not fits:
        raise misused(f"rand({low:g},{high:g}) does not fit the element type {dtype}", hint)
    if dtype.is_real:
        share = rng.random(size)
        return low * (1 - share) + high * share
    return rng.integers(int(low), int(high), size, endpoint=True)


def _top(dtype: ElementType) -> int:
    """Return the largest value of an integer or boolean type, as far as int64 goes."""
    if dtype.kind == "bool":
        return 1
    return int(min(2 ** (dtype.bits - (dtype.kind == "int")), 2**62)) - 1


def generate(kind: str, spec: Spec, seed: int, index: int, name: str) -> Array:
    """Return generated data; each input has its own stream, so order does not matter."""
    if not is_static(spec.shape) or spec.dtype is None:
        hint = f"make it exact, such as --shape '{name}{example_shape(spec.shape)}'"
        raise misused(f'input "{name}" is {spec}: its shape is open', hint)
    if spec.dtype.kind == "string":
        raise misused(f'input "{name}" holds strings: give them as {name}=@file.npy')
    make = generator(kind)
    assert make is not None, kind
    rng, out = np.random.default_rng([seed, index]), np.empty(spec.shape, spec.dtype.container)
    flat = out.reshape(-1)
    for start in range(0, out.size, MADE_AT_ONCE):
        part = slice(start, min(start + MADE_AT_ONCE, out.size))
        with np.errstate(over="ignore"):  # a narrow type may count to infinity
            flat[part] = make(rng, part, spec.dtype).astype(out.dtype)
    return out


def random_inputs(graph: Graph, seed: int = 0) -> dict[str, Array]:
    """Return random numbers for all inputs, those that the commands make of the same seed."""
    pairs = enumerate(zip(graph.inputs, graph.parameters, strict=True))
    return {name: generate("rand", node.spec(), seed, i, name) for i, (name, node) in pairs}


class NoArrayError(Exception):
    """A value is no array in the CPU's memory; the text names it, `hint` the remedy."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


def is_array(value: object) -> bool:
    """Whether a value is one array, or a number, and not several in a list."""
    return isinstance(value, np.ndarray | np.generic | int | float | complex) or (
        hasattr(value, "__array__") or hasattr(value, "__dlpack__")
    )


def array_of(value: Any) -> Array:
    """Convert a value to an array with NumPy, if possible without a copy; NoArrayError."""
    if isinstance(value, np.ndarray):
        return value
    kind = f"{type(value).__module__.partition('.')[0]}.{type(value).__qualname__}"
    try:
        by_protocol = hasattr(value, "__dlpack__") and not hasattr(value, "__array__")
        return np.from_dlpack(value) if by_protocol else np.asarray(value)
    except Exception as e:  # other packages raise errors of any class
        problem, hint = _why(value)
        reason = problem or next(iter(str(e).splitlines()), "") or type(e).__name__
        raise NoArrayError(f"NumPy cannot read this {kind}: {reason}", hint) from None


def _why(value: Any) -> tuple[str | None, str | None]:
    """Return why a tensor cannot be read, and the remedy in the words of its package."""
    device = str(getattr(value, "device", "cpu"))
    layout = str(getattr(value, "layout", "strided"))
    dtype = str(getattr(value, "dtype", ""))
    if device.startswith("meta"):
        return "it has a shape but no data (device meta)", "give a tensor that holds data"
    if "sparse" in layout:
        return "it is sparse", "array.to_dense()"
    if getattr(value, "requires_grad", False) is True:
        return "it requires a gradient", "array.detach()"
    if getattr(value, "is_quantized", False) is True:
        return "it is quantized", "array.dequantize(), or array.int_repr()"
    if not device.lower().startswith("cpu"):
        return f"it is on the device {device}", "array.cpu()"
    if "bfloat16" in dtype or "float8" in dtype:
        return f"NumPy has no {dtype.removeprefix('torch.')}", "array.float()"
    return None, None


# Arrays by name, in order, or the one of a single input (anything that `array_of` takes).
Feeds = Mapping[str, Any] | Sequence[Any] | Any


@dataclass(frozen=True)
class Binder:
    """The inputs of a graph, found once so that running does not search for them.

    `names` has every spelling under which a Parameter may be fed, `inputs` the usual one of each.
    """

    parameters: tuple[Node, ...]
    names: Mapping[str, Node]
    inputs: tuple[str, ...]

    @cached_property
    def specs(self) -> tuple[Spec, ...]:
        """Element type and shape of each Parameter."""
        return tuple(map(_spec, self.parameters))

    @cached_property
    def _types(self) -> list[tuple[Shape | None, np.dtype[Any] | None]]:
        """The shape and the type of array that each Parameter takes as it is."""
        return [(s.shape, None if s.dtype is None else s.dtype.container) for s in self.specs]

    @staticmethod
    def of(graph: Graph) -> Binder:
        """Return the binder of a graph."""
        return Binder(tuple(graph.parameters), graph.input_names(), tuple(graph.inputs))

    def bind(self, feeds: Feeds) -> list[Array]:
        """Return one array per Parameter, in order; UsageError with everything that does not fit.

        A mapping names inputs by a tensor name or the layer's name, a sequence is positional, an
        array is that of the only input. Arrays are converted to the Parameter's element type only
        if no value changes.
        """
        suiting = self._suiting(feeds)
        if suiting is not None:
            return suiting
        found = Collector()
        given = self._given(feeds, found)
        missing = [n for n in self.parameters if n.id not in given]
        if missing and not found.errors:
            for node in missing:
                found.add("E501", f'input "{node.name}" {_spec(node)} is missing', layer=node.name)
        pairs = zip(self.parameters, self.specs, strict=True)
        out = [_fit(n, spec, given[n.id], found) for n, spec in pairs if n.id in given]
        found.require_none(UsageError)
        return out

    def _suiting(self, feeds: Feeds) -> list[Array] | None:
        """Return arrays given by usual names or in order, if usable as they are; else None."""
        if type(feeds) is dict:
            arrays: list[Any] = [feeds.get(name) for name in self.inputs]
        else:
            arrays = feeds.copy() if type(feeds) is list else [feeds]
        if len(arrays) != len(self._types) or (type(feeds) is dict and len(feeds) != len(arrays)):
            return None
        for array, (shape, dtype) in zip(arrays, self._types, strict=True):
            if type(array) is not np.ndarray or dtype is None or array.dtype != dtype:
                return None
            if not fits(array.shape, shape):
                return None
        return arrays

    def part(self, feeds: Feeds, needed: Collection[int]) -> dict[str, Any]:
        """Return by name those feeds that belong to the Parameters with these ids.

        A sequence may have the arrays of all inputs, or of the needed ones alone.
        """
        kept = [(n, name) for n, name in zip(self.parameters, self.inputs, strict=True)]
        kept = [(n, name) for n, name in kept if n.id in needed]
        few = is_array(feeds) or (isinstance(feeds, Sequence) and len(feeds) == len(kept))
        binder = self
        if few:
            names = {name: n for n, name in kept}
            binder = Binder(tuple(names.values()), names, tuple(names))
        given = binder.given(feeds)
        return {n.name: given[n.id] for n, _ in kept if n.id in given}

    def given(self, feeds: Feeds) -> dict[int, Any]:
        """Return the feeds by node id; UsageError for names and numbers that do not fit."""
        found = Collector()
        given = self._given(feeds, found)
        found.require_none(UsageError)
        return given

    def _given(self, feeds: Feeds, found: Collector) -> dict[int, Any]:
        if isinstance(feeds, Mapping):
            return self._by_name(feeds, found)
        if is_array(feeds):
            if len(self.parameters) != 1:
                found.add("E501", f"a single array is given; {self._wanted()}", hint=self._mend())
                return {}
            return {self.parameters[0].id: feeds}
        if isinstance(feeds, str | bytes) or not isinstance(feeds, Sequence):
            kind = type(feeds).__qualname__
            message = f"inputs are arrays by name, arrays in order or an array, not a {kind}"
            saved = str(feeds).endswith((".npy", ".npz"))
            load = f"np.load({feeds!r}) reads a file" if saved else self._mend()
            raise misused(message, load)
        if len(feeds) != len(self.parameters):
            given = f"{count(len(feeds), 'input')} given"
            found.add("E501", f"{given}; {self._wanted()}", hint=self._mend())
            return {}
        return {n.id: v for n, v in zip(self.parameters, feeds, strict=False)}

    def _wanted(self) -> str:
        """Say which inputs the model has."""
        named = zip(self.inputs, self.parameters, strict=True)
        inputs = ", ".join(f"{name} {_spec(node)}" for name, node in named)
        has = f"the model has {count(len(self.parameters), 'input')}"
        return f"{has}: {inputs}" if inputs else has

    def _mend(self) -> str | None:
        """Say how inputs are given."""
        items = ", ".join(f'"{name}": ...' for name in self.inputs)
        return f"give them by name: {{{items}}}" if items else "give nothing"

    def _by_name(self, feeds: Mapping[Any, Any], found: Collector) -> dict[int, Any]:
        feed_of: dict[int, Any] = {}
        for name, value in feeds.items():
            node = self.names.get(name)
            if node is None:
                found.add(
                    "E501",
                    f'the model has no input "{name}"; it has {", ".join(self.inputs) or "none"}',
                    hint=did_you_mean(str(name), self.names),
                )
            else:
                feed_of[node.id] = value
        return feed_of


def _spec(node: Node) -> Spec:
    spec: Spec = as_tuple(node.op.infer())[0]
    return spec


def _what(node: Node, spec: Spec) -> str:
    return f'input "{node.name}" {spec}'


def _fit(node: Node, spec: Spec, value: Any, found: Collector) -> Array:
    try:
        if value is None:
            raise NoArrayError("None was given, not an array", "give an array of this shape")
        if isinstance(value, str) and str(spec.dtype) != "string":
            raise NoArrayError("a text was given, not an array", "np.load(...) reads a file")
        array = array_of(value)
    except NoArrayError as e:
        found.add("E501", f"{_what(node, spec)}: {e}", layer=node.name, hint=e.hint)
        return np.empty(0)
    suits = fits(array.shape, spec.shape)
    if spec.dtype is not None and (suits or array.dtype.kind not in "biuf"):  # it may be large
        converted = _convert(array, spec.dtype)
        if converted is None:
            message = (
                f"{_what(node, spec)}: an array of {_kind(array)} was given, and converting it "
                "would change values"
            )
            found.add("E501", message, layer=node.name, hint=_conversion(array, spec.dtype))
            return array
        array = converted
    if not suits:
        given = f"an array of shape {format_shape(array.shape)} was given"
        message = f"{_what(node, spec)}: {given}"
        hint = _reshaping(node.name, array.shape, spec.shape)
        if isinstance(value, list) and fits((1, *array.shape), spec.shape):
            hint = "a list has an array for each input: np.array(list) makes a single one"
        found.add("E501", message, layer=node.name, hint=hint)
    return array


def _kind(array: Array) -> str:
    """Return the elements of an array in words."""
    return {"O": "objects", "U": "texts", "S": "texts"}.get(array.dtype.kind, str(array.dtype))


def _conversion(array: Array, dtype: ElementType) -> str:
    if array.dtype == object:
        return "lists of unequal lengths, or None among numbers, make no array of numbers"
    if dtype.kind == "string":
        return "give an array of texts"
    if array.dtype.kind == "c":
        return "take array.real, or np.abs(array)"
    if array.dtype.kind not in "biufV":
        return "give an array of numbers"
    return f"round it as you want it: array.astype({dtype.container})"


def _reshaping(name: str, actual: tuple[int, ...], shape: Shape | None) -> str:
    """Return how to make an array of this shape fit, if that is obvious."""
    channels_last = [0, len(actual) - 1, *range(1, len(actual) - 1)]
    if fits((1, *actual), shape):
        return "array[None] adds an axis in front, for the batch"
    if actual[:1] == (1,) and fits(actual[1:], shape):
        return "array[0] takes the axis in front away"
    last = shape and len(shape) == len(actual) > 2 and shape[1] == actual[-1] != actual[1]
    if last or (len(actual) > 2 and fits(tuple(actual[i] for i in channels_last), shape)):
        return f"its channels come last, the model's first: array.transpose({channels_last})"
    moved = [len(actual) - 1, *range(len(actual) - 1)]
    if len(actual) > 2 and fits((1, *(actual[i] for i in moved)), shape):
        return f"its channels come last, the model's first: array.transpose({moved})[None]"
    if 0 in actual:
        return "it holds no numbers: check how it was made"
    if shape is not None and len(actual) == len(shape):
        if len(shape) > 2 and isinstance(shape[1], int) and shape[1] != actual[1]:
            return f"the model wants {shape[1]} channels, the array has {actual[1]}"
        wanted = format_shape(actual)
        return f"reshape the model: --shape '{name}{wanted}'"
    if is_static(shape) and math.prod(shape) != math.prod(actual):
        return f"the model wants {math.prod(shape)} numbers, the array has {math.prod(actual)}"
    return "transpose or reshape the array"


def _convert(array: Array, dtype: ElementType) -> Array | None:
    target = dtype.container
    if array.dtype == target:
        return array
    if dtype.kind == "string":
        return array.astype(object) if array.dtype.kind in "UST" else None
    if array.dtype.kind not in "biuf" and array.dtype.isbuiltin != 2:  # 2: those of ml_dtypes
        return None
    with np.errstate(invalid="ignore", over="ignore"):
        converted = array.astype(target)
        if dtype.is_real and array.dtype.kind == "f":
            # Rounding between floating-point types is expected, overflow is not.
            same = np.array_equal(np.isinf(converted), np.isinf(array))
        else:
            same = np.array_equal(converted.astype(np.float64), array.astype(np.float64))
    return converted if same else None


def fits(actual: tuple[int, ...], shape: Shape | None) -> bool:
    """Whether an array's shape is one that a (dynamic) shape allows."""
    if shape is None or actual == shape:
        return True
    if len(actual) != len(shape):
        return False
    return all(
        (d.lo <= a and (d.hi is None or a <= d.hi)) if isinstance(d, Interval) else a == d
        for a, d in zip(actual, shape, strict=True)
    )
