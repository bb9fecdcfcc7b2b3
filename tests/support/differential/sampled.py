"""Layers of every operation: samples of single layers, some of whose inputs other layers give."""

from __future__ import annotations

from functools import cache

from irdeconv.ir.op import Op, lookup, parse_attributes, ports
from support.differential.fitting import fitted
from support.differential.making import Held, Making, pick
from support.live_operations.mutate import LISTS
from support.live_operations.sample import Given, Sample
from support.live_operations.sweep import Target, sample_of, targets

# What they make of arbitrary numbers depends on the last bits of these: ranks, searches, chances.
OWN_INPUTS = frozenset(
    "Bucketize CTCGreedyDecoder CTCGreedyDecoderSeqLen CTCLoss DetectionOutput "
    "ExperimentalDetectronDetectionOutput ExperimentalDetectronGenerateProposalsSingleImage "
    "ExperimentalDetectronPriorGridGenerator ExperimentalDetectronROIFeatureExtractor "
    "ExperimentalDetectronTopKROIs GatherTree GenerateProposals Inverse MatrixNms MulticlassNms "
    "Multinomial NMSRotated NonMaxSuppression Proposal PSROIPooling RandomUniform ROIAlign "
    "ROIAlignRotated ROIPooling DeformablePSROIPooling SearchSorted GridSample BinaryConvolution "
    "Gather GatherElements GatherND EmbeddingSegmentsSum EmbeddingBagOffsets "
    "EmbeddingBagOffsetsSum EmbeddingBagPackedSum EmbeddingBagPacked OneHot "
    "ScatterUpdate ScatterElementsUpdate ScatterNDUpdate ReverseSequence Range Einsum".split()
)


@cache
def known_targets() -> tuple[Target, ...]:
    """Return the operations; those of one class once, in its newest opset."""
    newest = {}
    for target in targets():
        cls = lookup(target.type, target.version)
        if cls is not None:
            newest[cls] = target
    return tuple(newest.values())


def add_sampled(m: Making) -> list[Held] | None:
    """Add a random layer of a random operation."""
    sample = sample_of(pick(m.rng, known_targets()), m.below(1 << 30))
    return None if sample is None else add_sample(m, sample)


def add_sample(m: Making, sample: Sample) -> list[Held] | None:
    """Add a sample; its data come from values of the graph where these can be made to fit."""
    op = operation(sample)
    if op is None or sum(g.tensor.values.size for g in sample.inputs) > 2000:
        return None
    if sample.type in ("RandomUniform", "Multinomial", "FakeQuantize") and m.chance(0.7):
        return None
    return m.add(op, [_input(m, sample, i, g) for i, g in enumerate(sample.inputs)])


def operation(sample: Sample) -> Op | None:
    """Return the operation of a sample, if its attributes are right."""
    cls = lookup(sample.type, sample.version)
    if cls is None or not ports(cls).fits(len(sample.inputs)):
        return None
    values, problems = parse_attributes(cls, sample.attributes)
    if any(p.severity == "error" for p in problems):
        return None
    op = cls(**values)
    return None if any(p.severity == "error" for p in op.check()) else op


def _input(m: Making, sample: Sample, port: int, given: Given) -> Held:
    tensor = given.tensor
    if given.constant:
        return m.constant(tensor.values, tensor.dtype)
    if sample.type not in OWN_INPUTS and not _is_list(sample, port) and m.chance(0.8):
        fits = [
            h for h in m.held if h.dtype is tensor.dtype and h.array.shape == tensor.values.shape
        ]
        held = fits[m.below(len(fits))] if fits and m.chance(0.7) else m.some()
        out = held and fitted(m, held, tensor.dtype, tensor.values.shape)
        if out:
            return out
    counts = sample.type == "VariadicSplit" and port == 2  # its length is the number of outputs
    declared = given.declared if m.openness and not counts else tensor.values.shape
    return m.parameter(tensor.values, tensor.dtype, declared)


def _is_list(sample: Sample, port: int) -> bool:
    cls = lookup(sample.type, sample.version)
    names = ports(cls).names if cls is not None else ()
    return port < len(names) and names[port] in LISTS
