"""Connectionist temporal classification: CTCGreedyDecoder, CTCGreedyDecoderSeqLen, CTCLoss."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from irdeconv.dtypes import ElementType, i32
from irdeconv.errors import OpError, Problem
from irdeconv.kernels.sequences import ctc
from irdeconv.op import Op, op
from irdeconv.ops.checks import (
    axis_sizes,
    index_type,
    real_types,
    single,
    want_rank,
    want_shapes,
    want_type,
)
from irdeconv.spec import Array, Dim, Spec
from irdeconv.traits import JUMPS


def _some_classes(classes: Dim) -> None:
    """Refuse data without classes, of which none is the best; E302."""
    if classes == 0:
        raise OpError("there are 0 classes; at least one is needed", code="E302", port=0)


def _check_lengths(lengths: Array, highest: Array | int, port: int, name: str) -> None:
    """Require 0 up to the highest; E305."""
    bad = (lengths < 0) | (lengths > highest)
    if bad.any():
        n = int(np.flatnonzero(bad)[0])
        top = np.broadcast_to(highest, lengths.shape)[n]
        text = f"{name} of sequence {n} is {lengths[n]}; it must be 0 to {top}"
        raise OpError(text, code="E305", port=port)


@op("CTCGreedyDecoder", since=1)
class CTCGreedyDecoder(Op):
    """The best class of every step without blanks: data (T, N, C) -> classes (N, T, 1, 1).

    sequence_mask (T, N): a sequence ends at its first 0. The last class is the blank; with
    `ctc_merge_repeated` a class that follows itself at once is left out. Behind the classes is -1.
    They have data's type; the types may be mixed.  [sequence/CTCGreedyDecoder-1]
    """

    rounding = JUMPS
    ctc_merge_repeated: bool = True

    def infer(self, data: Spec, sequence_mask: Spec) -> Spec:
        names = ("data", "sequence_mask")
        dtype = real_types(data, sequence_mask, names=names)
        at = axis_sizes((data, sequence_mask), names, ("TNC", "TN"))
        _some_classes(at["C"])
        return Spec(dtype, (at["N"], at["T"], 1, 1))

    def evaluate(self, data: Array, sequence_mask: Array) -> Array:
        want_shapes(self, data, sequence_mask)
        used = np.logical_and.accumulate(sequence_mask != 0, 0).T
        classes, blank = np.argmax(data.astype(np.float32, copy=False), 2).T, data.shape[2] - 1
        out, _ = ctc.decoded(classes, used, blank, merge=self.ctc_merge_repeated)
        return out.astype(data.dtype)[..., None, None]


@op("CTCGreedyDecoderSeqLen", since=6)
class CTCGreedyDecoderSeqLen(Op):
    """The best class of every step without blanks: data (N, T, C) -> classes (N, T), counts (N,).

    sequence_length (N,), at most T. blank_index, a third input, is the last class by default; with
    `merge_repeated` a class that follows itself at once is left out. Behind the classes is -1.
    [sequence/CTCGreedyDecoderSeqLen-6]
    """

    rounding = JUMPS
    merge_repeated: bool = True
    classes_index_type: ElementType = i32
    sequence_length_type: ElementType = i32

    def check(self) -> Iterator[Problem]:
        yield from index_type(self, "classes_index_type")
        yield from index_type(self, "sequence_length_type")

    def infer(
        self, data: Spec, sequence_length: Spec, blank_index: Spec | None = None
    ) -> tuple[Spec, Spec]:
        want_type(data, "real", 0, "data")
        want_type(sequence_length, "integer", 1, "sequence_length")
        if blank_index is not None:
            single(blank_index, 2, "blank_index")
        names = ("data", "sequence_length")
        at = axis_sizes((data, sequence_length), names, ("NTC", "N"))
        _some_classes(at["C"])
        counts = Spec(self.sequence_length_type, (at["N"],))
        return Spec(self.classes_index_type, (at["N"], at["T"])), counts

    def evaluate(
        self, data: Array, sequence_length: Array, blank_index: Array | None = None
    ) -> tuple[Array, Array]:
        want_shapes(self, data, sequence_length, blank_index)
        _check_lengths(sequence_length, data.shape[1], 1, "the length")
        blank = data.shape[2] - 1 if blank_index is None else int(blank_index.item())
        used = np.arange(data.shape[1]) < sequence_length[:, None]
        classes = np.argmax(data.astype(np.float32, copy=False), 2)
        out, counts = ctc.decoded(classes, used, blank, merge=self.merge_repeated)
        return (
            out.astype(self.classes_index_type.container),
            counts.astype(self.sequence_length_type.container),
        )


@op("CTCLoss", since=4)
class CTCLoss(Op):
    """Minus the logarithm of the probability of labels: logits (N, T, C) -> (N,).

    logit_length (N,), at most T; labels (N, T), of which label_length (N,) are read, at most
    logit_length; blank_index, a scalar, is the last class by default. `unique` reads every label
    once, `preprocess_collapse_repeated` once in a row. With `ctc_merge_repeated` a label may last,
    and equal neighbours need a blank between them. Absent, that is false in the runtime, true in
    the specification.  [sequence/CTCLoss-4]
    """

    preprocess_collapse_repeated: bool = False
    ctc_merge_repeated: bool = False
    unique: bool = False

    def infer(
        self,
        logits: Spec,
        logit_length: Spec,
        labels: Spec,
        label_length: Spec,
        blank_index: Spec | None = None,
    ) -> Spec:
        want_type(logits, "real", 0, "logits")
        names = ("logits", "logit_length", "labels", "label_length")
        given = (logits, logit_length, labels, label_length)
        for port in (1, 2, 3):
            want_type(given[port], "integer", port, names[port])
        if blank_index is not None:
            want_type(blank_index, "integer", 4, "blank_index")
            want_rank(blank_index.shape, 0, 0, 4, "blank_index")
        at = axis_sizes(given, names, ("NTC", "N", "NT", "N"))
        _some_classes(at["C"])
        return Spec(logits.dtype, (at["N"],))

    def evaluate(
        self,
        logits: Array,
        logit_length: Array,
        labels: Array,
        label_length: Array,
        blank_index: Array | None = None,
    ) -> Array:
        want_shapes(self, logits, logit_length, labels, label_length, blank_index)
        _check_lengths(logit_length, logits.shape[1], 1, "the length of the logits")
        _check_lengths(label_length, logit_length, 3, "the number of labels")
        classes = logits.shape[2]
        blank = classes - 1 if blank_index is None else int(blank_index.item())
        if not 0 <= blank < classes:
            text = f"blank_index is {blank}; there are {classes} classes"
            raise OpError(text, code="E305", port=4)
        out = np.zeros(len(logits))
        for n, row in enumerate(logits.astype(np.float64)):
            wanted = self._read(labels[n, : label_length[n]])
            if len(wanted) and not 0 <= wanted.min() <= wanted.max() < classes:
                text = f"labels of sequence {n} reach from {wanted.min()} to {wanted.max()}"
                raise OpError(f"{text}; there are {classes} classes", code="E305", port=2)
            steps = row[: logit_length[n]]
            with np.errstate(all="ignore"):  # logits may be infinite
                out[n] = ctc.loss(steps, wanted, blank, merge=self.ctc_merge_repeated)
        return out.astype(logits.dtype)

    def _read(self, labels: Array) -> Array:
        """Return the labels that count."""
        if self.unique:
            return labels[np.sort(np.unique(labels, return_index=True)[1])]
        if self.preprocess_collapse_repeated:
            fresh = np.append(True, labels[1:] != labels[:-1])
            return np.asarray(labels[fresh[: len(labels)]])
        return labels
