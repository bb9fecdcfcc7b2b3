"""Rows of op_cases and IRs changed at random: types, sizes, values, attributes, declarations."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from irdeconv.ir.attributes import Attribute, attributes
from irdeconv.ir.dtypes import ELEMENT_TYPES, ElementType
from irdeconv.ir.op import REGISTRY, Op, ports
from irdeconv.ops.elementwise import UnaryFunction
from op_cases import Case, Tensor
from support.live.sample import Given, Sample, given

Rng = np.random.Generator
TYPES = ("f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8",
         "boolean")  # fmt: skip
WEIGHTS = (1, 4, 2, 2, 2, 4, 1, 2, 1, 1, 1, 3, 1)
REALS = ("f64", "f32", "f16", "bf16")
# The functions of a number, by name.
FUNCTIONS = {name: c for (name, _), c in REGISTRY.items() if issubclass(c, UnaryFunction)}
# The specification gives these real numbers only.
REAL_ONLY = frozenset(
    "RNNCell GRUCell LSTMCell RNNSequence GRUSequence LSTMSequence LogSoftmax SoftMax FakeQuantize "
    "MVN NormalizeL2 GRN LRN BatchNormInference GroupNormalization AvgPool Selu HardSigmoid PReLU "
    "Gelu Swish SoftPlus SoftSign Mish GridSample ROIAlign ROIPooling Interpolate Proposal "
    "PSROIPooling DetectionOutput NonMaxSuppression Convolution GroupConvolution "
    "ConvolutionBackpropData GroupConvolutionBackpropData Einsum "
    "ScaledDotProductAttention RegionYolo DFT IDFT RDFT IRDFT STFT ISTFT Inverse MatrixNms "
    "MulticlassNms GenerateProposals NMSRotated ROIAlignRotated AdaptiveAvgPool CTCLoss "
    "CTCGreedyDecoder CTCGreedyDecoderSeqLen FakeConvert IsFinite IsInf IsNaN "
    "DeformablePSROIPooling PriorBox PriorBoxClustered".split()
)
BOOLEAN_ONLY = frozenset(
    "LogicalAnd LogicalOr LogicalXor LogicalNot Xor ReduceLogicalAnd ReduceLogicalOr".split()
)
# Ports that say where or how much: their values are kept, and so is their type, unless an integer.
LISTS = frozenset(
    "axes axes_mapping axis batch_shape begin depth diagonal_index end indices image_size k "
    "max_output_boxes_per_class num_columns num_rows order output_shape output_size pads_begin "
    "pads_end repeats scales scales_or_sizes sequence_lengths shape split_lengths start step stop "
    "strides target_shape iou_threshold score_threshold soft_nms_sigma offsets default_index "
    "num_segments segment_ids blank_index logit_length sequence_length label_length shift "
    "block_shape crops_begin crops_end min_val max_val num_samples frame_size frame_step "
    "signal_size shape_seed num_rows max_seq_len parent_ids step_ids end_token box_indices "
    "batch_indices rois image_shape kernel_size dilations signal_length length condition "
    "past_lens subsequence_begins block_indices block_indices_begins max_context_len".split()
)
Inputs = list[Given]


def mutate(rng: Rng, row: Case, cls: type[Op], version: str) -> Sample:
    """One to four changes of a row, in another opset that has the same class."""
    listed = [_is_list(row, cls, i) for i in range(len(row.inputs))]
    inputs = [
        given(t, constant=(i > 0 and listed[i]) or i in row.fixed) for i, t in enumerate(row.inputs)
    ]
    texts = _texts(row, cls)
    made = []
    for chance, change in ((0.45, _types), (0.35, _sizes), (0.3, _values)):
        if rng.random() < chance:
            inputs = change(rng, inputs, listed, row.type)
            made.append(change.__name__[1:])
    if rng.random() < 0.45:
        texts = mutate_attributes(rng, texts, cls)
        made.append("attributes")
    inputs = declare(rng, inputs, listed)
    return Sample(row.type, version, texts, tuple(inputs), len(row.outputs), " ".join(made))


def _texts(row: Case, cls: type[Op]) -> dict[str, str]:
    op, _ = row.build()
    written = set(row.attributes.replace("=", " ").split())
    return {
        k: v for k, v in op.to_attributes().items() if k in written or attributes(cls)[k].required
    }


def _is_list(row: Case, cls: type[Op], i: int) -> bool:
    names = ports(cls).names
    return row.inputs[i].dtype.kind != "string" and i < len(names) and names[i] in LISTS


def pick(rng: Rng, items: Sequence[Any]) -> Any:
    return items[int(rng.integers(len(items)))]


def _replace(g: Given, tensor: Tensor) -> Given:
    return given(tensor, constant=g.constant)


def cast(values: Any, dtype: ElementType) -> Tensor:
    """Values in another type: integers within its range, negative ones by their magnitude."""
    wide = np.asarray(values)
    if dtype.kind == "uint":
        wide = np.abs(np.nan_to_num(wide.astype(np.float64)))
    if dtype.is_integral:
        low = -(2.0 ** (dtype.bits - 1)) if dtype.kind == "int" else 0.0
        high = 2.0 ** (dtype.bits - (dtype.kind == "int")) - 1
        wide = np.clip(np.nan_to_num(wide.astype(np.float64)), low, min(high, 2.0**31 - 1))
    return Tensor(dtype, wide.astype(dtype.container))


def type_for(rng: Rng, kind: str) -> ElementType:
    """An element type that the specification gives an operation."""
    if kind in BOOLEAN_ONLY:
        return ELEMENT_TYPES["boolean"]
    if kind in REAL_ONLY:
        return ELEMENT_TYPES[pick(rng, REALS)]
    return ELEMENT_TYPES[str(rng.choice(TYPES, p=np.array(WEIGHTS) / sum(WEIGHTS)))]


def _types(rng: Rng, inputs: Inputs, listed: list[bool], kind: str) -> Inputs:
    """Give all data of one type another one; seldom one of the lists another integer type."""
    out = list(inputs)
    kinds = sorted(
        {g.tensor.dtype.name for g, skip in zip(inputs, listed, strict=True) if not skip}
    )
    if kinds and ELEMENT_TYPES[kinds[0]].kind != "string":
        old, new = pick(rng, kinds), type_for(rng, kind)
        for i, g in enumerate(inputs):
            if not listed[i] and g.tensor.dtype.name == old:
                out[i] = _replace(g, cast(g.tensor.values, new))
    for i, g in enumerate(inputs):
        if listed[i] and g.tensor.dtype.is_integral and rng.random() < 0.3:
            fits = ("i64", "i32") if g.tensor.values.size and g.tensor.values.min() < 0 else (
                "i64", "i32", "i64", "i32", "u8", "u64", "u32", "i16")  # fmt: skip
            out[i] = _replace(g, cast(g.tensor.values, ELEMENT_TYPES[pick(rng, fits)]))
    return out


def _sizes(rng: Rng, inputs: Inputs, listed: list[bool], _: str) -> Inputs:
    """Make every axis of one size in the data longer, shorter or empty."""
    data = [i for i, skip in enumerate(listed) if not skip or inputs[i].tensor.values.ndim > 1]
    found = sorted({d for i in data for d in inputs[i].tensor.values.shape})
    if not found:
        return inputs
    old = pick(rng, found)
    new = pick(rng, (0, 1, old + 1, old + 2, 2 * old, max(old - 1, 1)))
    out = list(inputs)
    for i in data:
        values = inputs[i].tensor.values
        for axis in [a for a, d in enumerate(values.shape) if d == old]:
            values = _resized(values, axis, new)
        if values is not inputs[i].tensor.values:
            out[i] = _replace(inputs[i], Tensor(inputs[i].tensor.dtype, values))
    return out


def _resized(values: Any, axis: int, size: int) -> Any:
    if values.shape[axis] == 0:
        shape = (*values.shape[:axis], size, *values.shape[axis + 1 :])
        return np.zeros(shape, values.dtype)
    return np.take(values, np.arange(size) % values.shape[axis], axis)


def _values(rng: Rng, inputs: Inputs, listed: list[bool], _: str) -> Inputs:
    """New small numbers for the data; real ones in quarters."""
    out = list(inputs)
    for i, g in enumerate(inputs):
        if not listed[i] and g.tensor.dtype.kind != "string":
            out[i] = _replace(g, numbers(rng, g.tensor.dtype, g.tensor.values.shape))
    return out


def numbers(rng: Rng, dtype: ElementType, shape: Sequence[int], reach: int = 9) -> Tensor:
    """Small numbers: integers, or quarters for real types."""
    if dtype.kind == "bool":
        return Tensor(dtype, rng.integers(0, 2, shape).astype(bool))
    reach = min(reach, 7 if dtype.bits > 3 else 1)
    low = -reach if dtype.kind in ("float", "int") else 0
    whole = rng.integers(low, reach + 1, shape)
    if dtype.is_real and dtype.bits >= 16 and rng.random() < 0.5:
        return Tensor(dtype, (whole / 4).astype(dtype.container))
    return Tensor(dtype, whole.astype(dtype.container))


def declare(rng: Rng, inputs: Inputs, listed: list[bool]) -> Inputs:
    """Make lists inputs now and then, and forget dimensions or the rank of inputs."""
    out = []
    style = rng.random()
    for g, listing in zip(inputs, listed, strict=True):
        if listing and g.constant and rng.random() < 0.1:
            g = given(g.tensor)
        if not g.constant:
            g = dataclasses.replace(g, declared=_forgotten(rng, style, g.tensor.values.shape))
        out.append(g)
    return out


def _forgotten(rng: Rng, style: float, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The plugin takes no input of unknown rank."""
    if style < 0.6:
        return shape
    chance = 1.0 if style > 0.85 else 0.4
    return tuple(-1 if rng.random() < chance else d for d in shape)


def mutate_attributes(rng: Rng, texts: dict[str, str], cls: type[Op]) -> dict[str, str]:
    """Give one or two attributes other values, or leave one out that has a default."""
    out, known = dict(texts), attributes(cls)
    names = [n for n in known if n not in ("variable_id",)]
    for _ in range(int(rng.integers(1, 3)) if names else 0):
        a = known[pick(rng, names)]
        if not a.required and a.xml in out and rng.random() < 0.2:
            del out[a.xml]
            continue
        text = _other(rng, a, out.get(a.xml))
        if text is not None:
            out[a.xml] = text
    return out


def _other(rng: Rng, a: Attribute, text: str | None) -> str | None:
    """Another value of an attribute's kind, near the one that it has."""
    label = a.kind.label
    now = a.default if text is None else a.kind.parse(text)
    if label == "boolean":
        return "false" if now else "true"
    if " | " in label:
        return str(pick(rng, label.split(" | ")))
    if label == "integer":
        return str(int(now or 0) + pick(rng, (-2, -1, 1, 2)))
    if label == "number":
        return str(pick(rng, (0.0, 0.25, 0.5, 1.0, 2.0, -1.0, float(now or 0) + 0.5)))
    if label == "integers" and now:
        at = int(rng.integers(len(now)))
        return ",".join(str(v + (pick(rng, (-1, 1)) if i == at else 0)) for i, v in enumerate(now))
    if label == "numbers" and now:
        return ",".join(str(v * pick(rng, (0.5, 1, 2))) for v in now)
    if label == "element type":
        return str(pick(rng, ("i64", "i32", "i64", "i32", "f32", "f16", "boolean", "u8")))
    return None
