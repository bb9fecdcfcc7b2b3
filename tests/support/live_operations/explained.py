"""Disagreements that stay, each with its reason; docs/disagreements.md lists the same titles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from irdeconv.ir.dtypes import ELEMENT_TYPES
from support.live_operations import conditions as at
from support.live_operations import magnitudes
from support.live_operations.refusals import refusal
from support.live_operations.sample import Sample
from support.live_operations.verdict import Verdict

POOLS = ("AvgPool", "MaxPool")
CELLS = ("RNNCell", "GRUCell", "LSTMCell")
SEQUENCES = ("RNNSequence", "GRUSequence", "LSTMSequence")
# The plugin computes integers in these in f32, those of 8 bits so that they end at their limits.
SUMS = (
    "Add Subtract Multiply Power MatMul Convolution GroupConvolution "
    "ConvolutionBackpropData GroupConvolutionBackpropData"
).split()
FUNCTIONS = (
    "Exp Sinh Cosh Tan Sqrt Log Asinh Acosh Asin Acos Atan Atanh Sin Cos Tanh Erf Sigmoid Negative "
    "Abs Floor Ceiling Sign"
).split()


@dataclass(frozen=True)
class Explanation:
    """A kind of disagreement: its title, and which verdicts it explains."""

    title: str
    fits: Callable[[Verdict], bool]


def _differs(v: Verdict, *names: str) -> bool:
    """Whether values or computed shapes differ; other differences have no explanation."""
    if any(text in v.reason for text in ("irdeconv fails", ": type ", ": inferred ")):
        return False
    return v.kind == "differ" and (not names or v.sample.type in names)


def _sizes(v: Verdict) -> bool:
    """Whether inferred or computed shapes differ."""
    return ": inferred [" in v.reason or ": shape [" in v.reason


def _if(v: Verdict, condition: Callable[[Sample], bool], *names: str) -> bool:
    return _differs(v, *names) and condition(v.sample)


def _packed(v: Verdict) -> bool:
    target = ELEMENT_TYPES.get(v.sample.attributes.get("destination_type", ""))
    convert = _differs(v, "Convert", "ConvertLike")
    return convert and target is not None and target.is_packed


EXPLAINED = (
    Explanation(
        "windows that see nothing but padding", lambda v: _if(v, at.sees_padding_alone, *POOLS)
    ),
    Explanation(
        "a bias of LRN that is no integer", lambda v: _if(v, at.broken_bias, "LRN")
    ),
    Explanation(
        "LRN over the first axis of a matrix", lambda v: _if(v, at.normalizes_rows, "LRN")
    ),
    Explanation(
        "filters of BinaryConvolution that do not fill bytes",
        lambda v: _if(v, at.parts_of_bytes, "BinaryConvolution"),
    ),
    Explanation(
        "random numbers whose seeds are 0",
        lambda v: _if(v, at.takes_time, "Multinomial", "RandomUniform"),
    ),
    Explanation(
        "Multinomial that runs out of classes",
        lambda v: _if(v, at.runs_out_of_classes, "Multinomial"),
    ),
    Explanation(
        "edges that are not sorted", lambda v: _if(v, at.unsorted, "Bucketize", "SearchSorted")
    ),
    Explanation(
        "indices out of range",
        lambda v: _if(v, at.has_index_outside, "Gather", "GatherElements", "GatherND"),
    ),
    Explanation("layers with an empty input", lambda v: _if(v, at.stays_unwritten)),
    Explanation("the least of no f32", lambda v: _if(v, at.is_least_of_nothing, "ReduceMin")),
    Explanation(
        "the largest of nothing",
        lambda v: v.sample.type == "TopK" and _sizes(v) and at.takes_from_nothing(v.sample),
    ),
    Explanation(
        "a real transform of nothing",
        lambda v: v.sample.type == "RDFT" and _sizes(v) and at.transforms_nothing(v.sample),
    ),
    Explanation("an open Concat of nothing", lambda v: _if(v, at.joins_nothing, "Concat")),
    Explanation("an open Reshape to 0 and -1", lambda v: _if(v, at.fills_nothing, "Reshape")),
    Explanation(
        "NormalizeL2 along no axes", lambda v: _if(v, at.divides_by_itself, "NormalizeL2")
    ),
    Explanation(
        "auto_broadcast none with unequal shapes",
        lambda v: _if(v, at.unequal_shapes)
        and v.sample.attributes.get("auto_broadcast") == "none",
    ),
    Explanation(
        "pdpd of differences, quotients, comparisons, logic and bits",
        lambda v: _if(v, at.aligned_at_the_end),
    ),
    Explanation(
        "a SliceScatter whose places are no constants",
        lambda v: _if(v, at.slices_by_inputs, "SliceScatter"),
    ),
    Explanation(
        "shifts out of 32 bits",
        lambda v: _if(v, at.shifted_out, "BitwiseLeftShift", "BitwiseRightShift"),
    ),
    Explanation(
        "maxima and minima of infinities",
        lambda v: _if(v, magnitudes.is_infinite, "ReduceMax", "ReduceMin"),
    ),
    Explanation(
        "8-bit integers that overflow", lambda v: _if(v, magnitudes.overflows_8_bits, *SUMS)
    ),
    Explanation(
        "squared differences of 8-bit integers",
        lambda v: _differs(v, "SquaredDifference") and at.integers(v.sample, 8),
    ),
    Explanation(
        "quotients of integers that are not whole",
        lambda v: _if(v, magnitudes.divides_unevenly, "Divide"),
    ),
    Explanation(
        "sums of 8-bit integers that overflow",
        lambda v: _if(v, magnitudes.overflows_as_a_sum, "ReduceSum"),
    ),
    Explanation(
        "functions of 8-bit integers without a result", lambda v: _if(v, magnitudes.has_no_result)
    ),
    Explanation("integers beyond 32 bits", lambda v: _if(v, magnitudes.is_beyond_32_bits)),
    Explanation(
        "integers computed in f32", lambda v: _if(v, magnitudes.is_beyond_f32, *SUMS, *FUNCTIONS)
    ),
    Explanation(
        "a Range whose step leads away", lambda v: _if(v, at.leads_away, "Range")
    ),
    Explanation(
        "a Range of reals as integers", lambda v: _if(v, at.rounds_a_range, "Range")
    ),
    Explanation(
        "a Range beyond 8-bit integers", lambda v: _if(v, at.ranges_beyond_8_bits, "Range")
    ),
    Explanation(
        "a Tile of fewer repeats than axes",
        lambda v: _differs(v, "Tile")
        and v.sample.inputs[1].tensor.values.size < v.sample.inputs[0].tensor.values.ndim,
    ),
    Explanation(
        "sequences of open shapes that end early",
        lambda v: _if(v, at.ends_early, *SEQUENCES),
    ),
    Explanation("sequences of no steps", lambda v: _if(v, at.has_no_steps, *SEQUENCES)),
    Explanation(
        "a NaN that a cell clips",
        lambda v: _if(v, magnitudes.clips_nan, *CELLS, *SEQUENCES),
    ),
    Explanation("the inverse of a singular matrix", lambda v: _if(v, at.singular, "Inverse")),
    Explanation(
        "places of Unique in 8 bits",
        lambda v: _differs(v, "Unique")
        and bool({"u8", "i8", "boolean"} & at.types(v.sample))
        and v.reason.startswith(("output 1", "output 2")),
    ),
    Explanation("packed results", _packed),
    Explanation(
        "reals beyond 8-bit integers, of open shapes",
        lambda v: _if(v, magnitudes.saturates_as_open, "Convert", "ConvertLike"),
    ),
    Explanation(
        "a StridedSlice that adds and drops axes and leaves others unnamed",
        lambda v: _if(v, at.adds_and_drops, "StridedSlice"),
    ),
    Explanation(
        "CTCLoss of logits above 88",
        lambda v: _differs(v, "CTCLoss") and "OpenVINO inf" in v.reason
        and at.has(v.sample, lambda x: x > 88, "f32", "f16", "bf16"),
    ),
    Explanation(
        "scores of a Proposal that finds too few",
        lambda v: _if(v, at.finds_too_few, "Proposal") and v.reason.startswith("output 1"),
    ),
    Explanation(
        "a boolean mask of f64 that hides all keys",
        lambda v: _if(v, at.hides_all, "ScaledDotProductAttention") and " nan," in v.reason,
    ),
    Explanation(
        "equal values of TopK by their index",
        lambda v: _if(v, at.ties_at_the_last, "TopK") and v.sample.attributes["sort"] == "index",
    ),
    Explanation(
        "places of MaxPool in windows of the lowest number",
        lambda v: _if(v, at.pools_the_lowest, "MaxPool") and v.reason.startswith("output 1"),
    ),
    Explanation(
        "a pad value that is no constant, though the pads are",
        lambda v: _if(v, at.fills_by_an_input, "Pad"),
    ),
    Explanation(
        "MaxPool with places that pads an open axis by auto_pad",
        lambda v: _if(v, at.pads_an_open_axis, "MaxPool"),
    ),
    Explanation(
        "an attention mask of one number beside a sink",
        lambda v: _if(v, at.masks_beside_a_sink, "ScaledDotProductAttention"),
    ),
    Explanation(
        "functions of integers that are folded",
        lambda v: _if(v, at.folds_wide_integers, *FUNCTIONS),
    ),
    Explanation(
        "an Interpolate-1 that pads other axes than its own",
        lambda v: v.kind == "differ" and v.sample.type == "Interpolate"
        and at.pads_beside_its_axes(v.sample),
    ),
    Explanation(
        "a bidirectional Broadcast of one to nothing",
        lambda v: _if(v, at.fills_with_nothing, "Broadcast"),
    ),
    Explanation(
        "a HardSigmoid whose alpha is 0", lambda v: _if(v, at.has_alpha_0, "HardSigmoid")
    ),
    Explanation(
        "products of u8 beyond 15 bits",
        lambda v: _if(v, magnitudes.multiplies_beyond_15_bits, "ReduceProd"),
    ),
    Explanation(
        "equal values of a TopK that is not stable",
        lambda v: _if(v, at.ties, "TopK") and v.reason.startswith("output 1"),
    ),
    Explanation(
        "remainders of reals whose quotient rounds to an integer",
        lambda v: _if(v, at.has_a_quotient_that_rounds, "Mod", "FloorMod"),
    ),
    Explanation(
        "the lowest bf16",
        lambda v: _if(v, at.fills_with_the_lowest_bf16, "SegmentMax"),
    ),
    Explanation(
        "bicubic_pillow with another cube_coeff than -0.5",
        lambda v: _differs(v, "Interpolate")
        and v.sample.attributes.get("mode") == "bicubic_pillow"
        and v.sample.attributes.get("cube_coeff") != "-0.5",
    ),
    Explanation("a MatMul over nothing", lambda v: _if(v, at.sums_nothing, "MatMul")),
    Explanation(
        "places of SparseFillEmptyRows out of order",
        lambda v: _if(v, at.places_out_of_order, "SparseFillEmptyRows"),
    ),
    Explanation("infinities and NaN of f64", lambda v: _if(v, magnitudes.leaves_f32)),
)  # fmt: skip


def explanation(verdict: Verdict) -> str:
    """The title of what explains a disagreement; empty where nothing does."""
    if verdict.kind == "only OpenVINO":
        return refusal(verdict.sample, verdict.reason)
    return next((e.title for e in EXPLAINED if e.fits(verdict)), "")
