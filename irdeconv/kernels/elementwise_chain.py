"""Chains of element-wise operations on arrays that broadcast, tile by tile in the cache.

A chain is a straight-line program: register 0 is the main tensor, 1..k are operands, then one
register for each instruction. f32 and f64 are computed as they are; f16, bf16 and f8 in f32 and
rounded once, at the chain's end (separate operations would round after each of them). Some chains
of f32 have a compiled form: a bias, an activation, tensors added around it.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from irdeconv.ir.spec import Array
from irdeconv.kernels import elementwise as steps
from irdeconv.kernels import jit
from irdeconv.kernels import scratch as blocking
from irdeconv.kernels.candidate import Piece, type_of_sums
from irdeconv.kernels.chain_patterns import recognized
from irdeconv.kernels.elementwise import Emitter, Instruction, Rule, TileProgram, assign, copy
from irdeconv.kernels.numpy_calls import (
    FEW_ELEMENTS,
    KeptCalls,
    NumPyCall,
    kept,
    larger,
    smaller,
    written,
)
from irdeconv.kernels.recorded_calls import (
    ProgramCode,
    Recorded,
    Repeated,
    complete,
    recorded_copy,
    recorded_program,
    remade,
)
from irdeconv.kernels.scratch import Space, pieces
from irdeconv.kernels.threads import Team

if TYPE_CHECKING:
    from irdeconv.kernels.compiled_chain import CompiledChain


Index = tuple[Any, ...]
Strides = tuple[int, ...]


@dataclass(frozen=True)
class TileLayout:
    """Axes merged if all arrays allow it, and the tiles: their places in `out`, in inputs."""

    shape: tuple[int, ...]
    shapes: tuple[tuple[int, ...], ...]
    tiles: list[tuple[Index, tuple[Index, ...]]]


@lru_cache(maxsize=1024)
def tile_layout(
    shape: tuple[int, ...],
    strides: Strides,
    inputs: tuple[tuple[tuple[int, ...], Strides], ...],
    size: int,
) -> TileLayout:
    """Merge neighbouring axes and cut tiles of about `size` elements."""
    rank = len(shape)
    all_shapes = [shape, *((1,) * (rank - len(s)) + s for s, _ in inputs)]
    all_strides = [strides, *((0,) * (rank - len(t)) + t for _, t in inputs)]
    merged: list[list[int]] = []  # for each axis that is left, its size in every array
    ahead: list[int] = []
    for axis in range(rank):
        if shape[axis] == 1:
            continue
        sizes = [s[axis] for s in all_shapes]
        steps = [t[axis] for t in all_strides]
        if merged and _mergeable(merged[-1], ahead, sizes, steps):
            merged[-1] = [a * b for a, b in zip(merged[-1], sizes, strict=True)]
        else:
            merged.append(sizes)
        ahead = steps
    kept = merged or [[1] * len(all_shapes)]
    shapes = [tuple(axis[i] for axis in kept) for i in range(len(all_shapes))]
    return TileLayout(shapes[0], tuple(shapes[1:]), _tiles(shapes[0], shapes[1:], size))


def _mergeable(outer: list[int], ahead: list[int], sizes: list[int], steps: list[int]) -> bool:
    """Whether in every array an axis continues the one before it, or both are broadcast."""
    for before, stride, size, step in zip(outer, ahead, sizes, steps, strict=True):
        broadcast = before == 1, size == 1
        if broadcast[0] != broadcast[1] or (not broadcast[0] and stride != step * size):
            return False
    return True


def _tiles(
    shape: tuple[int, ...], inputs: Sequence[tuple[int, ...]], size: int
) -> list[tuple[Index, tuple[Index, ...]]]:
    """Cut one axis into pieces; those before it are walked, those behind it stay whole."""
    cut = len(shape) - 1
    inner = 1
    while cut and inner * shape[cut] < size:
        inner *= shape[cut]
        cut -= 1
    rows = max(1, size // inner)
    tiles = []
    for place in np.ndindex(*shape[:cut]):
        for at in range(0, shape[cut], rows):
            index = (*place, slice(at, min(at + rows, shape[cut])))
            parts = tuple(
                tuple(
                    p if s[a] > 1 else (0 if a < cut else slice(None)) for a, p in enumerate(index)
                )
                for s in inputs
            )
            tiles.append((index, parts))
    return tiles


CODES: dict[Rule, int] = {
    steps.relu: jit.CLAMP,
    steps.clamp: jit.CLAMP,
    steps.prelu: jit.PRELU,
    steps.hsigmoid: jit.HSIGMOID,
    steps.hswish: jit.HSWISH,
    steps.sigmoid: jit.SIGMOID,
    steps.swish: jit.SWISH,
    steps.hard_sigmoid: jit.HARD_SIGMOID,
    steps.erf: jit.ERF,
    steps.gelu_erf: jit.GELU,
    steps.mish: jit.MISH,
}


OPERATIONS: dict[Any, int] = {
    np.add: jit.ADDED,
    np.subtract: jit.SUBTRACTED,
    np.multiply: jit.MULTIPLIED,
    np.divide: jit.DIVIDED,
    larger: jit.LARGER,
    smaller: jit.SMALLER,
    np.square: jit.MULTIPLIED,
    np.sqrt: jit.ROOT,
    np.rint: jit.NEAREST,
    np.abs: jit.ABSOLUTE,
    np.floor: jit.FLOOR,
    np.ceil: jit.CEILING,
    np.trunc: jit.CUT,
    np.fmax: jit.NUMBER,
    np.exp: jit.EXPONENTIAL,
    np.tanh: jit.TANGENT,
    steps.to_f16: jit.TO_F16,
    steps.to_bf16: jit.TO_BF16,
    np.positive: jit.MOVED,
    copy: jit.MOVED,
    steps.clip_loop: jit.CLIPPED,
}
FEW_COLUMNS, BRIEF_ROWS = 4, 8
BRIEF_IMAGE = 1024  # elements
SHARED_ELEMENTS = 1 << 16  # elements of a piece that threads share
ELEMENT_NS = 0.5  # that an element takes, at least


def _shared_elements(out: Array) -> int:
    return blocking.shared_step(out.size, SHARED_ELEMENTS, ELEMENT_NS * out.size, 64)


def recorded_program_of(
    program: TileProgram, inputs: Sequence[Array], out: Array
) -> Recorded | None:
    """Record a program for memory at fixed addresses; None if it has no compiled code."""
    if any(fn not in OPERATIONS for fn, _, _ in program.code) or not jit.works():
        return None
    code = [
        (OPERATIONS[fn], args * 2 if fn is np.square else args, to) for fn, args, to in program.code
    ]
    return recorded_program(ProgramCode(code, program.constants, program.registers), inputs, out)


def tiles_of(inputs: Sequence[Array], out: Array, size: int) -> Iterator[tuple[Array, list[Array]]]:
    """Yield tiles of about `size` elements: of the output, and of all inputs."""
    shapes = tuple((a.shape, a.strides) for a in inputs)
    layout = tile_layout(out.shape, out.strides, shapes, size)
    views = [a.reshape(s) for a, s in zip(inputs, layout.shapes, strict=True)]
    whole = out.reshape(layout.shape)
    few, rows = layout.shape[-1], layout.shape[-2:-1]
    if 1 < few <= FEW_COLUMNS and rows and rows[0] > BRIEF_ROWS * few and not jit.available():
        for k in range(few):  # NumPy's innermost loop is the last axis, which would be too short
            columns = [v[..., k if v.shape[-1] > 1 else 0] for v in views]
            yield from tiles_of(columns, whole[..., k], size)
        return
    for at, places in layout.tiles:
        yield whole[at], [v[i] for v, i in zip(views, places, strict=True)]


class _ChainReader:
    """Reads instructions from the main tensor on."""

    def __init__(
        self, instructions: Sequence[Instruction], operands: Sequence[Array | None]
    ) -> None:
        self.instructions, self.operands, self.at = instructions, operands, 0

    @property
    def value(self) -> int:
        """The register of the last result."""
        return self.at and len(self.operands) + self.at

    def constant(self, register: int) -> Array | None:
        return self.operands[register - 1] if 0 < register <= len(self.operands) else None

    def added(self, constant: bool) -> int:
        """Go over an addition of a constant or of a tensor; return its register, 0 for none."""
        if self.at == len(self.instructions) or self.instructions[self.at].rule is not np.add:
            return 0
        others = [a for a in self.instructions[self.at].args if a != self.value]
        if len(others) != 1 or not 0 < others[0] <= len(self.operands):
            return 0
        if (self.constant(others[0]) is not None) != constant:
            return 0
        self.at += 1
        return int(others[0])

    def activation(self) -> Instruction | None:
        """Go over an activation; None for none."""
        if self.at == len(self.instructions):
            return None
        last = self.instructions[self.at]
        if last.rule not in CODES or last.args[0] != self.value:
            return None
        if last.rule is steps.prelu and self.constant(last.args[1]) is None:
            return None
        self.at += 1
        return last

    def scaled(self) -> tuple[Array, ...]:
        """Go over a product with a constant and a sum; return both constants, () for neither."""
        start, factor = self.at, self._constant_of(np.multiply)
        offset = self._constant_of(np.add)
        if factor is None and offset is None:
            self.at = start
            return ()
        one, nothing = np.ones(1, np.float32), np.full(1, -0.0, np.float32)
        return (one if factor is None else factor, nothing if offset is None else offset)

    def _constant_of(self, rule: Rule) -> Array | None:
        """Go over an operation whose other operand is a constant; return that."""
        if self.at == len(self.instructions) or self.instructions[self.at].rule is not rule:
            return None
        others = [a for a in self.instructions[self.at].args if a != self.value]
        found = self.constant(others[0]) if len(others) == 1 else None
        self.at += found is not None
        return found

    def ending(self) -> tuple[Array, ...]:
        """Go over a quantization by constants, or a rounding; return its numbers, () for none."""
        if self.at == len(self.instructions):
            return ()
        last = self.instructions[self.at]
        if last.rule is steps.fake_quantize and last.args[0] == self.value:
            found = [self.constant(register) for register in last.args[1:]]
            if any(a is None for a in found):
                return ()
            levels = np.full(1, last.params[0] - 1, np.float32)
            self.at += 1
            return (*(a for a in found if a is not None), levels)
        if last.rule is not steps.narrow or last.args[0] != self.value:
            return ()
        if last.params[0].itemsize != 2:
            return ()
        self.at += 1
        return (np.full(1, last.params[0] == np.float16, np.float32),)


def compiled_form(
    instructions: Sequence[Instruction], operands: Sequence[Array | None]
) -> CompiledChain | None:
    """Return the compiled form of a chain; None if it has none, or numba is not available."""
    if not jit.available():
        return None
    reader = _ChainReader(instructions, operands)
    constant = reader.constant(reader.added(True))
    nothing: Array = np.zeros(1, np.float32)
    bias = np.full(1, -0.0, np.float32) if constant is None else constant  # keeps a -0 as it is
    before = reader.added(False)
    last = reader.activation()
    after = reader.added(False)
    ending = (*reader.scaled(), *reader.ending())
    if reader.at < len(instructions) or not instructions:
        return None
    used = {s for s in (before, after) if s}
    if used != {i for i, a in enumerate(operands, 1) if a is None}:
        return None
    if not jit.works():
        return None
    from irdeconv.kernels.compiled_chain import Added, CompiledChain

    added = Added(before, after)
    if last is None:
        return CompiledChain(jit.NOTHING, (0.0, 0.0), bias, nothing, added, ending)
    slope = nothing if last.rule is not steps.prelu else reader.constant(last.args[1])
    assert slope is not None
    limits = (0.0, math.inf) if last.rule is steps.relu else (*last.params, 0.0, 0.0)[:2]
    return CompiledChain(CODES[last.rule], limits, bias, slope, added, ending)


_NOTHING = np.zeros((0, 0), np.float32)
SHORT_PROGRAM = 2  # instructions that take no longer than a copy and a call of the compiled form
# A tile's image, channels and positions; the source and target of a copy, and that seen as rows.
_RowTile = tuple[tuple[int, slice, slice], Array, Array, Array]


@dataclass(frozen=True)
class Chain:
    """A compiled chain; `constants` are the known operands by register."""

    inputs: int
    emitter: Emitter
    result: int
    constants: dict[int, Array]
    programs: dict[Any, TileProgram] = field(default_factory=dict)
    fused: CompiledChain | None = None

    @staticmethod
    def compile(
        instructions: Sequence[Instruction], dtype: Any, operands: Sequence[Array | None] = ()
    ) -> Chain:
        """Compile instructions; `dtype` is the element type or the one it is computed in.

        `operands` are registers 1..k: constants, or None for tensors that are given when it runs.
        Constants of one element become part of the program.
        """
        kind = type_of_sums(dtype)
        instructions = recognized(instructions, operands)
        with np.errstate(all="ignore"):
            constants = {i: a.astype(kind) for i, a in enumerate(operands, 1) if a is not None}
        inputs = 1 + len(operands)
        emitter = Emitter(inputs, kind, constants)
        values = list(range(inputs))
        for i, array in constants.items():
            if array.size == 1:
                values[i] = emitter.constant(array.reshape(()))
        for one in instructions:
            values.append(emitter.emit(one.rule, [values[i] for i in one.args], one.params))
        wide = {i: a for i, a in constants.items() if a.size > 1}
        unused = {i: np.zeros((), kind) for i in constants if i not in wide}
        fused = compiled_form(instructions, operands) if kind == np.float32 else None
        return Chain(inputs, emitter, values[-1], wide | unused, fused=fused)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the computation."""
        return self.emitter.dtype

    def program(self, types: tuple[Any, ...], out: Any, home: int | None) -> TileProgram:
        """Return the program for inputs and a destination of given types, `home` being both."""
        key = types, out, home
        if key not in self.programs:
            self.programs[key] = assign(
                self.inputs,
                self.emitter,
                self.result,
                home=home,
                loads=[i for i, t in enumerate(types) if t != self.dtype],
                store=out != self.dtype,
            )
        return self.programs[key]

    def bind(
        self, out_shape: Sequence[int], given: Mapping[int, Array] | None = None
    ) -> ChainEpilogue:
        """Return an epilogue for outputs `[N, M, *O]`; `given` are operands by register."""
        epilogue = ChainEpilogue(self, tuple(out_shape))
        for register, array in (self.constants | dict(given or {})).items():
            epilogue.give(register, array)
        return epilogue

    def run(self, inputs: Sequence[Array], out: Array, team: Team) -> None:
        """Compute `out` (any strides) from register 0 and the operands that are no constants.

        Everything broadcasts to `out`. `out` may be one of the inputs, if that has its shape; it
        must not overlap any other.
        """
        self.prepare(inputs, out)(team)

    def fixed(self, inputs: Sequence[Array], out: Array) -> Callable[[Team], None]:
        """Return the work of `run` on these arrays, compiled if possible."""
        if out.dtype == np.float32 and out.size and jit.available():
            arrays = self._all(inputs)
            program = self.program(tuple(a.dtype for a in arrays), out.dtype, None)
            work = self._finished(arrays, out) if len(program.code) > SHORT_PROGRAM else None
            # Threads must not decide whether it is compiled, so first come pieces of one size.
            for size in () if work else (SHARED_ELEMENTS, _shared_elements(out)):
                pairs = tiles_of(arrays, out, size)
                finer = Repeated.of(recorded_program_of(program, i, o) for o, i in pairs)
                work = finer or work
                if work is None:
                    break
            if work is not None:
                return work
        return self.kept(inputs, out, FEW_ELEMENTS) or self.prepare(inputs, out)

    def kept(self, inputs: Sequence[Array], out: Array, most: int) -> KeptCalls | Repeated | None:
        """Return the calls of NumPy on these arrays; None if they are compiled, or out is large."""
        if not 0 < out.size <= most or self.fused is not None:
            return None
        arrays = self._all(inputs)
        home = next((i for i, a in enumerate(arrays) if _same(a, out)), None)
        program = self.program(tuple(a.dtype for a in arrays), out.dtype, home)
        tiles = list(tiles_of(arrays, out, max(FEW_ELEMENTS, blocking.SIZES.chain_elements)))
        if out.size <= FEW_ELEMENTS or len(tiles) == 1:
            calls: list[NumPyCall] = []
            for part, given in tiles:
                scratch = [np.empty(part.shape, self.dtype) for _ in range(program.registers)]
                calls += program.calls(given, part, scratch)
            return kept(out, calls, most)

        def piece(part: Array, given: list[Array]) -> Piece:
            kind, registers = self.dtype, range(program.registers)
            return remade(
                lambda space: written(
                    program.calls(given, part, [space.array(part.shape, kind) for _ in registers])
                )
            )

        return Repeated(tuple(piece(*tile) for tile in tiles))

    def _finished(self, arrays: Sequence[Array], out: Array) -> Repeated | None:
        """Record copies of the main tensor that the compiled form finishes, if there is one."""
        if self._by_channel(arrays, out):
            epilogue, places = self._row_tiles(arrays, out)
            return Repeated.of(
                complete([recorded_copy(x, y), epilogue.fixed(tile, *at)])
                for at, x, y, tile in places
            )
        x, fused = arrays[0], self.fused
        same = x.shape == out.shape and x.dtype == out.dtype
        plain = same and x.flags.c_contiguous and out.flags.c_contiguous
        if fused is None or not fused.scalar or not plain:
            return None
        # It treats all elements alike, so threads share pieces of them.
        source, flat, calls = x.reshape(-1), out.reshape(1, -1), []
        for cut in pieces(out.size, _shared_elements(out)):
            end = Recorded.of("finish_rows", *fused.arguments(flat[:, cut], slice(0, 1)))
            calls.append(complete([recorded_copy(source[cut], flat[0, cut]), end]))
        return Repeated.of(calls)

    def _all(self, inputs: Sequence[Array]) -> list[Array]:
        """Return the contents of the registers in front of the instructions."""
        rest, known = iter(inputs), self.constants
        return [known[i] if i in known else next(rest) for i in range(self.inputs)]

    def prepare(self, inputs: Sequence[Array], out: Array) -> Callable[[Team], None]:
        """Return the work of `run` on these arrays, to be done often."""
        if out.size == 0:
            return lambda team: None
        arrays = self._all(inputs)
        if self._by_channel(arrays, out):
            return self._rows(arrays, out)
        home = next((i for i, a in enumerate(arrays) if _same(a, out)), None)
        program = self.program(tuple(a.dtype for a in arrays), out.dtype, home)
        # Nothing is read again after a single call, so that large tiles cost least.
        size = blocking.SIZES.chain_elements * (1 if len(program.code) > 1 else 8)
        parts = list(tiles_of(arrays, out, size))
        kind, registers = self.dtype, program.registers
        whole_type = out.dtype == kind == arrays[0].dtype
        compiled = self.fused if whole_type and self.fused and self.fused.scalar else None

        def work(tile: tuple[Array, list[Array]], space: Space) -> None:
            part, given = tile
            if compiled is not None and part.flags.c_contiguous:
                copy(given[0], part)
                compiled(part.reshape(1, -1), slice(0, 1))
                return
            program.run(given, part, [space.array(part.shape, kind) for _ in range(registers)])

        return lambda team: team.each(parts, work)

    def _by_channel(self, arrays: Sequence[Array], out: Array) -> bool:
        """Whether the compiled form does it, with arrays that vary by channel or are added."""
        if self.fused is None or self.fused.scalar or out.ndim < 2 or not out.flags.c_contiguous:
            return False
        if len(out) > 1 and out.size < BRIEF_IMAGE * len(out):  # each is a call of its own
            return False
        first = arrays[0]
        if any(a.dtype != self.dtype for a in (out, first)) or first.shape != out.shape:
            return False
        # The epilogue would copy others once, not whenever it runs.
        others = [a for i, a in enumerate(arrays) if i and i not in self.constants]
        same = all(a.shape == out.shape and a.flags.c_contiguous for a in others)
        return same and bool(self.fused.fits(out.shape))

    def _rows(self, arrays: Sequence[Array], out: Array) -> Callable[[Team], None]:
        """Copy the main tensor and finish it as an epilogue does."""
        epilogue, places = self._row_tiles(arrays, out)

        def work(place: _RowTile, space: Space) -> None:
            at, x, y, tile = place
            np.copyto(y, x)
            epilogue(tile, *at)

        return lambda team: team.each(places, work)

    def _row_tiles(
        self, arrays: Sequence[Array], out: Array
    ) -> tuple[ChainEpilogue, list[_RowTile]]:
        """Return the call that finishes an output, and the tiles that are its arguments."""
        given = {i: a for i, a in enumerate(arrays) if i and i not in self.constants}
        epilogue = self.bind(out.shape, given)
        n, m = out.shape[:2]
        flat, source = out.reshape(n, m, -1), arrays[0]
        rows = max(1, blocking.SIZES.chain_elements // flat.shape[2])
        tiles = [(i, slice(c, min(c + rows, m))) for i in range(n) for c in range(0, m, rows)]
        everything = slice(0, flat.shape[2])
        return epilogue, [
            ((i, c, everything), source[i, c], out[i, c], flat[i, c]) for i, c in tiles
        ]


def _same(a: Array, b: Array) -> bool:
    return a is b or (
        a.__array_interface__["data"] == b.__array_interface__["data"]
        and a.shape == b.shape
        and a.strides == b.strides
    )


class _Registers(threading.local):
    """Scratch memory of one thread, and views of it by shape and count."""

    def __init__(self) -> None:
        self.memory = np.empty((0, 0), np.float32)
        self.views: dict[tuple[tuple[int, ...], int], Sequence[Array]] = {}


class ChainEpilogue:
    """A chain on tiles `[channels, positions]` of an output, in place; see prepared.Epilogue."""

    def __init__(self, chain: Chain, shape: tuple[int, ...]) -> None:
        self.chain = chain
        self.shape = (shape[0], shape[1], math.prod(shape[2:]))
        self.positional = False
        self._full = shape
        self._operands: list[Array] = [np.zeros((), chain.dtype)] * (chain.inputs - 1)
        self._plain: list[bool] = [True] * (chain.inputs - 1)
        self._local = _Registers()
        self._program = chain.program((chain.dtype,) * chain.inputs, chain.dtype, 0)
        self._kind = chain.dtype
        self._fused = chain.fused if chain.fused and chain.fused.fits(shape) else None
        added = self._fused.added if self._fused else None
        self._adds = (
            (added.before, added.after) if added and (added.before or added.after) else None
        )

    def give(self, register: int, array: Array) -> None:
        """Set an operand; it is copied if it varies along some of several spatial axes."""
        shape = (1,) * (len(self._full) - array.ndim) + array.shape
        space = shape[2:]
        full = math.prod(space)
        if full > 1 and space != self._full[2:]:
            target = (*shape[:2], *self._full[2:])
            array, full = np.broadcast_to(array.reshape(shape), target), self.shape[2]
        flat = array.reshape(*shape[:2], full)
        n, m, p = flat.shape
        # [1, M, 1] and [1, 1, 1] are sliced by channels alone.
        plain = n == 1 and p == 1
        self._operands[register - 1] = flat.reshape(m, 1) if plain else flat
        self._plain[register - 1] = plain
        self.positional = not all(self._plain)
        self._choose(self._kind)

    def __call__(self, tile: Array, image: int, channels: slice, positions: slice) -> None:
        """Finish a tile in place."""
        if tile.dtype is not self._kind:
            self._choose(tile.dtype)
        if self._fused is not None and self._compiled(tile, image, channels, positions):
            return
        program = self._program
        if program.registers and tile.size > 2 * blocking.SIZES.chain_elements:
            self._split(tile, image, channels, positions)
            return
        inputs = [tile, *self._parts(image, channels, positions)]
        scratch = self._scratch(tile.shape, program.registers) if program.registers else ()
        program.run(inputs, tile, scratch)

    def fixed(self, tile: Array, image: int, channels: slice, positions: slice) -> Piece:
        """Return work that finishes a tile in memory at fixed addresses."""
        fused = self._fused
        more = self._added(tile, image, channels, positions) if fused is not None else None
        if more is not None and fused is not None:
            return Recorded.of("finish_rows", *fused.arguments(tile, channels, *more))
        made = None
        if tile.dtype == np.float32 and jit.available():
            program = self.chain.program((tile.dtype,) * self.chain.inputs, tile.dtype, 0)
            parts = self._parts(image, channels, positions)
            made = recorded_program_of(program, [tile, *parts], tile)
        return made or (lambda space: self(tile, image, channels, positions))

    def _parts(self, image: int, channels: slice, positions: slice) -> list[Array]:
        """Return the parts of operands that belong to a tile."""
        count = range(len(self._operands))
        return [self._part(i, image, channels, positions) for i in count]

    def _part(self, i: int, image: int, channels: slice, positions: slice) -> Array:
        array = self._operands[i]
        if self._plain[i]:
            return array[channels] if len(array) > 1 else array
        return _part(array, image, channels, positions)

    def _compiled(self, tile: Array, image: int, channels: slice, positions: slice) -> bool:
        """Finish a tile by the compiled form; return whether that is possible."""
        more = self._added(tile, image, channels, positions)
        if more is None or self._fused is None:
            return False
        self._fused(tile, channels, *more)
        return True

    def _added(
        self, tile: Array, image: int, channels: slice, positions: slice
    ) -> Sequence[Array] | None:
        """Return the tensors that the compiled form adds to a tile; None if it cannot finish it."""
        if tile.dtype is not self.chain.dtype or tile.strides[1] != tile.itemsize:
            return None
        if self._adds is None:
            return ()
        more: list[Array] = []
        for register in self._adds:
            if not register:
                more.append(_NOTHING)
                continue
            part = self._part(register - 1, image, channels, positions)
            if part.shape != tile.shape or part.dtype is not tile.dtype:
                return None
            if part.strides[1] != part.itemsize or not part.flags.writeable:
                return None
            more.append(part)
        return more

    def _choose(self, kind: np.dtype[Any]) -> None:
        """Take the program for tiles of an element type."""
        types = (kind, *(a.dtype for a in self._operands))
        self._program, self._kind = self.chain.program(types, kind, 0), kind

    def _split(self, tile: Array, image: int, channels: slice, positions: slice) -> None:
        """Finish a large tile piece by piece, so that the registers stay in the cache."""
        first = channels.indices(self.shape[1])[0]
        start = positions.indices(self.shape[2])[0] if self.positional else 0
        rows, width = tile.shape
        span = min(width, blocking.SIZES.chain_elements)
        step = max(1, blocking.SIZES.chain_elements // span)
        for c in range(0, rows, step):
            for p in range(0, width, span):
                part = tile[c : c + step, p : p + span]
                here = slice(first + c, first + c + part.shape[0])
                self(part, image, here, slice(start + p, start + p + part.shape[1]))

    def _scratch(self, shape: tuple[int, ...], registers: int) -> Sequence[Array]:
        """Return this thread's registers for tiles of a shape."""
        local = self._local
        found = local.views.get((shape, registers))
        if found is None:
            size = math.prod(shape)
            if local.memory.shape[0] < registers or local.memory.shape[1] < size:
                local.memory = np.empty((registers, size), self.chain.dtype)
                local.views.clear()
            found = [local.memory[i, :size].reshape(shape) for i in range(registers)]
            local.views[shape, registers] = found
        return found


def _part(array: Array, image: int, channels: slice, positions: slice) -> Array:
    n, m, p = array.shape
    everything = slice(None)
    part: Array = array[
        image if n > 1 else 0, channels if m > 1 else everything, positions if p > 1 else everything
    ]
    return part
