"""Operations that read sequences of classes."""

from irdeconv.ops.sequences import beams, ctc
