"""Single operations in live OpenVINO, and small domains of every one of the proof's language."""

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any, Literal, NamedTuple

import numpy as np

from irdeconv.ir.constant import encode
from irdeconv.ir.dtypes import ELEMENT_TYPES
from irdeconv.proof.language import MOVES, output_type
from irdeconv.proof.model import Layer, TypedArray
from support.live.sample import IrText

# Single operations in live OpenVINO: folded, run on parameters, and run with vectors unknown.

Mode = Literal["folded", "run", "unknown"]
NATIVE = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "boolean": np.bool_}
NATIVE |= {f"{k}{8 * b}": np.dtype(f"{k}{b}").type for k in "iu" for b in (1, 2, 4, 8)}


class LiveCase(NamedTuple):
    """One operation and its inputs."""

    layer: Layer
    inputs: list[TypedArray]

    def __str__(self) -> str:
        given = ", ".join(f"{x.type}{x.array.tolist()}" for x in self.inputs)
        said = " ".join(f"{k}={v}" for k, v in self.layer.attributes.items())
        return f"{self.layer.type} {self.layer.version} {said}: {given}"


def _source(text: IrText, x: TypedArray, mode: Mode, carried: bool, fed: list[TypedArray]) -> int:
    shape = ",".join(map(str, x.array.shape))
    if mode == "folded" or (mode == "run" and not carried) or x.type in ("i4", "u4"):
        data = encode(x.array, ELEMENT_TYPES[x.type])
        size = max(len(data), 1) if x.array.size else 0
        at = f'offset="{len(text.blob)}" size="{size}"'
        text.blob += data or b"\0"
        return text.layer("Const", "opset1", f'element_type="{x.type}" shape="{shape}" {at}', [], 1)
    fed.append(x)
    if mode == "unknown" and carried:
        shape = ",".join("?" * x.array.ndim)
    return text.layer("Parameter", "opset1", f'element_type="{x.type}" shape="{shape}"', [], 1)


def _add(text: IrText, case: LiveCase, mode: Mode, outputs: int, fed: list[TypedArray]) -> None:
    kind = case.layer.type
    ports = MOVES.get(kind, range(99))
    sources = [(_source(text, x, mode, p in ports, fed), 0) for p, x in enumerate(case.inputs)]
    said = " ".join(f'{k}="{v}"' for k, v in case.layer.attributes.items())
    here = text.layer(kind, case.layer.version, said, sources, outputs)
    for o in range(outputs):
        place = (here, len(sources) + o)
        if output_type(case.layer, [x.type for x in case.inputs]) == "bf16":  # no NumPy array
            place = (text.layer("Convert", "opset1", 'destination_type="f32"', [place], 1), 1)
        text.layer("Result", "opset1", "", [place], 0)


def live(cases: Sequence[LiveCase], mode: Mode, outputs: Sequence[int]) -> list[Any]:
    """Return for each case its outputs in OpenVINO as arrays, or why it is refused, as a text."""
    try:
        got = _together(cases, mode, outputs)
    except RuntimeError as e:
        if len(cases) == 1:
            return [str(e)]
        half = len(cases) // 2
        return live(cases[:half], mode, outputs[:half]) + live(cases[half:], mode, outputs[half:])
    each = iter(got)
    return [[next(each) for _ in range(n)] for n in outputs]


def _together(cases: Sequence[LiveCase], mode: Mode, outputs: Sequence[int]) -> list[Any]:
    import openvino as ov
    from openvino.passes import ConstantFolding, Manager

    text, given = IrText(), list[TypedArray]()
    for case, n in zip(cases, outputs, strict=True):
        _add(text, case, mode, n, given)
    blob = np.frombuffer(text.blob or b"\0", np.uint8)
    core = ov.Core()
    model = core.read_model(text.xml().encode(), ov.Tensor(blob.copy()))
    if mode == "folded":
        manager = Manager()
        manager.register_pass(ConstantFolding())
        manager.run_passes(model)
        sources = [r.input_value(0).get_node() for r in model.get_results()]
        if any(s.get_type_name() != "Constant" for s in sources):
            raise RuntimeError("not folded")
        return [np.array(s.get_data()) for s in sources]
    hints = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
    compiled = core.compile_model(model, "CPU", hints)
    fed = []
    for x in given:
        memory = np.frombuffer(encode(x.array, ELEMENT_TYPES[x.type]) or b"\0", np.uint8).copy()
        fed.append(ov.Tensor(memory, list(x.array.shape), getattr(ov.Type, x.type)))
    request = compiled.create_infer_request()
    for i, tensor in enumerate(fed):
        request.set_input_tensor(i, tensor)
    request.infer()
    return [np.array(request.get_output_tensor(i).data) for i in range(len(compiled.outputs))]


# Values of every element type, one by one, for what the proof's language computes with them.

REAL = "0 1 -1 0.5 -2.5 3 7.25 100 -128.5 255 300 40000 65504 0.125"
WHOLE = (0, 1, 2, 3, 7, 100, 127, 128, 200, 255, 300, 32767, 65535, 70000, 2**24 - 1, 2**24)
WHOLE += (2**24 + 1, 2**31 - 1, 2**31, 2**32 - 1, 2**40)
TYPES = "f32 f16 bf16 f64 i64 i32 i16 i8 u64 u32 u16 u8 boolean".split()
PAIRS = "Add Subtract Multiply Divide FloorMod Maximum Minimum Equal NotEqual Less LessEqual "
PAIRS += "Greater GreaterEqual"
UNARY = ("Negative-1", "Abs-1", "ReLU-1", "Clamp-1 min=-2 max=100")


def held(type: str) -> np.ndarray[Any, Any]:
    """Return values that a type has."""
    if type in ("u4", "i4"):
        return np.arange(16, dtype=np.uint8) if type == "u4" else np.arange(-8, 8, dtype=np.int8)
    if type == "boolean":
        return np.array([False, True])
    if type[0] in "fb":
        values = np.array(REAL.split()).astype(NATIVE.get(type, np.float32))
        bf16 = (values.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)  # if f32
        return bf16 if type == "bf16" else values
    info = np.iinfo(NATIVE[type])
    signed = {v for n in WHOLE for v in (n, -n, -n - 1) if info.min <= v <= info.max}
    return np.array(sorted(signed), NATIVE[type])


def combined(layer: Layer, *types: str) -> Iterator[LiveCase]:
    """Yield a case of one element each for every combination of values."""
    for values in product(*([TypedArray(v, t) for v in held(t)[:, None]] for t in types)):
        yield LiveCase(layer, [*values])


# Small domains of every operation of the proof's language, malformed operands included.

Domain = Iterator[LiveCase]
FAR = (2**63 - 1, -(2**63), 2**31 - 1, -(2**31))


def layer(head: str, **attributes: Any) -> Layer:
    """Return a layer, "Pad-12 pad_mode=constant"."""
    name, *rest = head.split()
    type, _, opset = name.partition("-")
    said = dict(a.split("=", 1) for a in rest) | {k: str(v) for k, v in attributes.items()}
    return Layer("y", type, f"opset{opset}", said)


def case(head: str, *inputs: TypedArray, **attributes: Any) -> LiveCase:
    """Return a layer with its inputs."""
    return LiveCase(layer(head, **attributes), [*inputs])


def ints(*values: int, type: str = "i64") -> TypedArray:
    """Return a vector."""
    return TypedArray(np.array(values, NATIVE[type]), type)


def scalar(value: int, type: str = "i64") -> TypedArray:
    """Return a scalar."""
    return TypedArray(np.array(value, NATIVE[type]), type)


def counted(shape: tuple[int, ...], type: str = "f32", first: int = 1) -> TypedArray:
    """Return first, first + 1, ... in a shape; booleans alternate in threes."""
    values = np.arange(first, first + int(np.prod(shape))).reshape(shape)
    return TypedArray(
        (values % 3 == 0) if type == "boolean" else values.astype(NATIVE.get(type, "f4")), type
    )


def vectors(values: Any, *lengths: int) -> Iterator[tuple[int, ...]]:
    for n in lengths:
        yield from product(values, repeat=n)


def pads() -> Domain:
    for v, n, b, e in product((1, 12), (0, 1, 3), range(-4, 4), range(-4, 4)):
        yield case(f"Pad-{v} pad_mode=constant", counted((n,)), ints(b), ints(e))
    for v, b, e in product((1, 12), vectors((-1, 0, 2), 2), vectors((-2, 0, 1), 2)):
        zero = TypedArray(np.array(0, np.float32), "f32")
        yield case(f"Pad-{v}", counted((2, 3)), ints(*b), ints(*e, type="i32"), zero)
    yield case("Pad-12", counted((2, 3)), ints(1), ints(1))


def slices() -> Domain:
    bounds = (*range(-5, 6), *FAR)
    for n, b, e, s in product((0, 1, 4), bounds, bounds, (-3, -2, -1, 0, 1, 2, 3)):
        yield case("Slice-8", counted((n,)), ints(b), ints(e), ints(s))
    for n, b, e, s in product((0, 1, 4), (0, -1), FAR, (*FAR, 2**32, -(2**31) + 1)):
        yield case("Slice-8", counted((n,)), ints(b), ints(e), ints(s))
    for a in vectors(range(-3, 3), 0, 1, 2):
        k = len(a)
        given = [ints(*v[:k]) for v in ((0, -2), (9, 3), (1, 2), a)]
        yield case("Slice-8", counted((2, 3)), *given)
        yield case("Slice-8", counted((2, 3)), *given[:3])


def strided_slices() -> Domain:
    bits = ("", "0", "1")
    for n, b, e, s in product(
        (0, 1, 4), range(-5, 6), (-9, -3, -1, 0, 2, 4, FAR[2]), (-2, -1, 1, 2)
    ):
        for m, k in product(bits, bits):
            said = {"begin_mask": m, "end_mask": k}
            given = [counted((n,)), ints(b), ints(e), ints(s)]
            yield case("StridedSlice-1", *given, **said)
    names = ("begin_mask", "end_mask", "new_axis_mask", "shrink_axis_mask", "ellipsis_mask")
    rng = random.Random(5)
    for _ in range(3000):
        k = rng.randint(0, 4)
        said = {
            name: ",".join(
                str(int(rng.random() < 0.25)) for _ in range(rng.choice((k, k, k, 0, 1)))
            )
            for name in names
        }
        shape = tuple(rng.randint(1, 4) for _ in range(rng.randint(1, 3)))
        b, e, s = ([rng.randint(*r) for _ in range(k)] for r in ((-3, 3), (-4, 4), (1, 2)))
        if rng.random() < 0.2:
            s = [v * rng.choice((1, -1)) for v in s]
        given = [counted(shape), ints(*b), ints(*e)] + ([ints(*s)] if rng.random() < 0.9 else [])
        yield case("StridedSlice-1", *given, **said)


def gathers() -> Domain:
    for v, a, shape in product((1, 7, 8), range(-3, 3), ((2, 3), (3, 1, 2))):
        for at in (*vectors(range(-4, 4), 0, 1, 2), (0, 2, 0)):
            yield case(f"Gather-{v}", counted(shape), ints(*at), scalar(a))
    for v, a, at, b in product((7, 8), (0, 1, -1), range(-3, 3), (0, 1, -1, -2)):
        x = TypedArray(np.array([[at, 0], [1, 0]]), "i64")
        yield case(f"Gather-{v} batch_dims={b}", counted((2, 3, 2)), x, scalar(a))
    for v, a, at in product((7, 8), (0, 1, -1), (0, 1)):
        x = ints(at, 0)
        yield case(f"Gather-{v} batch_dims=-1", counted((2, 3, 2)), x, scalar(a))
    for at in range(-3, 3):
        yield case("Gather-8", ints(5, 7), scalar(at), scalar(0))
        yield case("Gather-8", ints(5, 7), scalar(at, "i32"), ints(0))


def scatters() -> Domain:
    for v, at in product((4, 15), vectors(range(-4, 4), 1, 2)):
        places = TypedArray(np.array(at).reshape(-1, 1), "i64")
        yield case(f"ScatterNDUpdate-{v}", counted((3,)), places, counted((len(at),), first=50))
    for at in product(range(-3, 3), repeat=4):
        places = TypedArray(np.array(at).reshape(2, 2), "i64")
        yield case("ScatterNDUpdate-4", counted((2, 3)), places, counted((2,), first=50))
    for at, shape in product(range(-2, 2), ((1, 3), (3,), (1, 2), ())):
        places = TypedArray(np.array([[at]]), "i64")
        yield case("ScatterNDUpdate-3", counted((2, 3)), places, counted(shape, first=50))
        yield case("ScatterNDUpdate-4", counted((2, 3)), places, counted(shape, first=50))


def concats() -> Domain:
    shapes = ((), (2,), (3,), (2, 3), (2, 1), (1, 3), (0, 3), (1, 2, 3))
    for a, s, t in product(range(-4, 4), shapes, shapes):
        yield case(f"Concat-1 axis={a}", counted(s), counted(t, first=50))
        yield case(f"Concat-1 axis={a}", counted(s), counted(t, first=50), counted(s, first=90))
    yield case("Concat-1 axis=0", counted((2,)), counted((2,), "i32"))
    yield case("Concat-1 axis=0", counted((2,)))


def splits() -> Domain:
    for n, k, a in product(range(7), range(-1, 5), range(-3, 3)):
        yield case(f"Split-1 num_splits={k}", counted((2, n)), scalar(a))
    for n, parts in product(range(4), vectors(range(-2, 4), 1, 2, 3)):
        yield case("VariadicSplit-1", counted((n,)), scalar(-1), ints(*parts))
    for a in range(-3, 3):
        yield case("VariadicSplit-1", counted((2, 3)), ints(a), ints(1, -1))


def transposes() -> Domain:
    for rank in range(4):
        for order in vectors(range(-2, 4), 0, 1, 2, 3):
            yield case("Transpose-1", counted((2, 3, 4)[:rank]), ints(*order))


def reshapes() -> Domain:
    for shape, zero in product(
        ((), (1,), (6,), (2, 3), (0, 3), (2, 0), (2, 1, 3)), ("true", "false")
    ):
        for pattern in vectors((-2, -1, 0, 1, 2, 3, 6), 0, 1, 2, 3):
            said = layer(f"Reshape-1 special_zero={zero}")
            yield LiveCase(said, [counted(shape), ints(*pattern)])


def squeezes() -> Domain:
    for v, shape in product(
        ("1", "15", "15 allow_axis_skip=true"), ((), (1,), (2,), (1, 2), (1, 2, 1), (1, 0, 1))
    ):
        yield case(f"Squeeze-{v}", counted(shape))
        for axes in vectors(range(-4, 4), 0, 1, 2):
            yield case(f"Squeeze-{v}", counted(shape), ints(*axes))
    for shape, axes in product(((), (2,), (2, 3)), vectors(range(-4, 4), 0, 1, 2)):
        yield case("Unsqueeze-1", counted(shape), ints(*axes))
    for a in range(-3, 3):
        yield case("Unsqueeze-1", counted((2,)), scalar(a))
        yield case("Squeeze-1", counted((2, 1)), scalar(a))


def broadcasts() -> Domain:
    shapes = ((), (1,), (2,), (1, 2), (2, 1), (2, 3), (0, 1))
    for shape, target in product(shapes, vectors((-1, 0, 1, 2, 3), 0, 1, 2, 3)):
        for head in ("1", "1 mode=numpy", "3 mode=numpy", "3 mode=bidirectional"):
            yield case(f"Broadcast-{head}", counted(shape), ints(*target))
        if len(target) < 3:
            for v, axes in product((1, 3), vectors((-1, 0, 1, 2), len(shape))):
                given = [counted(shape), ints(*target), ints(*axes)]
                yield case(f"Broadcast-{v} mode=explicit", *given)


def tiles() -> Domain:
    for shape, repeats in product(
        ((), (1,), (2,), (2, 3), (0, 2)), vectors(range(-1, 4), 0, 1, 2, 3)
    ):
        yield case("Tile-1", counted(shape), ints(*repeats))


def blocks() -> Domain:
    shapes = (
        (8,),
        (2, 8),
        (1, 4, 2),
        (2, 8, 3),
        (1, 4, 2, 3),
        (1, 8, 2, 2),
        (2, 9, 3, 3),
        (1, 8, 2, 4, 2),
        (0, 4, 2, 2),
        (1, 0, 2, 2),
    )
    kinds, modes = ("DepthToSpace", "SpaceToDepth"), ("blocks_first", "depth_first")
    for kind, mode, b, shape in product(kinds, modes, range(-1, 4), shapes):
        yield case(f"{kind}-1 mode={mode} block_size={b}", counted(shape))
    for shape, a, g in product(((4,), (1, 6), (2, 4, 3), (1, 6, 2, 2)), range(-3, 4), range(-1, 5)):
        yield case(f"ShuffleChannels-1 axis={a} group={g}", counted(shape))


def batches() -> Domain:
    for shape, b, c, d in product(
        ((4, 3), (2, 2), (6, 1), (3, 2), (0, 2)), range(-1, 4), range(-1, 3), range(3)
    ):
        for one in (1, 2):
            given = [ints(one, b), ints(0, c), ints(0, d)]
            yield case("BatchToSpace-2", counted(shape), *given)
    for shape, at in product(
        ((4, 1, 2, 3), (8, 2, 2, 1), (4, 1, 2, 2, 2), (4, 2, 3)), vectors((1, 2), 3)
    ):
        k = len(shape)
        for cut in vectors((0, 1), 2):
            given = [
                ints(1, *(*at, 1)[: k - 1]),
                ints(*[0] * (k - 1), cut[0]),
                ints(*[0] * (k - 1), cut[1]),
            ]
            yield case("BatchToSpace-2", counted(shape), *given)


def turns() -> Domain:
    for shape in ((3,), (2, 3), (2, 0)):
        for axes in vectors(range(-3, 3), 0, 1, 2):
            yield case("Reverse-1 mode=index", counted(shape), ints(*axes))
            for by in vectors((-4, 0, 1, 5), len(axes)):
                yield case("Roll-7", counted(shape), ints(*by), ints(*axes))
    yield case("Identity-16", counted((2, 3)))
    shapes = ((), (2,), (2, 1), (1, 2), (3,))
    for s, t, u in product(shapes, repeat=3):
        yield case("Select-1", *[counted(s, "boolean"), counted(t), counted(u, first=50)])


def interpolates() -> Domain:
    places = (
        "half_pixel",
        "pytorch_half_pixel",
        "asymmetric",
        "tf_half_pixel_for_nn",
        "align_corners",
    )
    rounds = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple")
    for n, f, where, to in product(
        (1, 2, 3, 5, 7, 64, 211), (1, 2, 3, 4, 5, 6, 7, 16), places, rounds
    ):
        said = f"mode=nearest coordinate_transformation_mode={where} nearest_mode={to}"
        x, size, factor = (
            counted((1, 1, n, 2)),
            ints(n * f),
            TypedArray(np.array([f], np.float32), "f32"),
        )
        for v, how in product((4, 11), ("sizes", "scales")):
            given = [size, factor] if v == 4 else [size if how == "sizes" else factor]
            yield case(f"Interpolate-{v} shape_calculation_mode={how} {said}", x, *given, ints(2))
    for n, m, corners in product((1, 2, 3, 5), (1, 2, 3, 4, 6, 9, 15), ("true", "false")):
        said = layer(f"Interpolate-1 axes=2,3 mode=nearest align_corners={corners}")
        yield LiveCase(said, [counted((1, 2, n, 2)), ints(m, 4)])
    said = "mode=nearest shape_calculation_mode=sizes nearest_mode=floor"
    for a in vectors(range(-5, 4), 1, 2):
        head = layer(f"Interpolate-11 {said} coordinate_transformation_mode=asymmetric")
        yield LiveCase(head, [counted((1, 2, 2, 2)), ints(*(4, 6)[: len(a)]), ints(*a)])


DOMAINS: dict[str, Callable[[], Domain]] = {
    "Pad": pads, "Slice": slices, "StridedSlice": strided_slices, "Gather": gathers,
    "ScatterNDUpdate": scatters, "Concat": concats, "Split, VariadicSplit": splits,
    "Transpose": transposes, "Reshape": reshapes, "Squeeze, Unsqueeze": squeezes,
    "Broadcast": broadcasts, "Tile": tiles, "DepthToSpace, SpaceToDepth, ShuffleChannels": blocks,
    "BatchToSpace": batches, "Reverse, Roll, Identity, Select": turns, "Interpolate": interpolates,
}  # fmt: skip
