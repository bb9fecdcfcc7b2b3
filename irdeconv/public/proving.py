"""Prove that a rewritten model equals the original."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path

from irdeconv.models import ModelLike
from irdeconv.passes.overrides import ShapeLike
from irdeconv.proving import sides
from irdeconv.verify.proof import check
from irdeconv.verify.proof.certificate import Certificate
from irdeconv.verify.proof.certified import Certificates
from irdeconv.verify.proof.report import CheckReport


def certify(
    model: ModelLike,
    lowered: ModelLike,
    *,
    sizes: Mapping[str, ShapeLike] | None = None,
    probe: bool = False,
    seed: int | None = None,
) -> Certificates:
    """Prove every layer that a lowering rewrote equal to the original, and write down what was.

    `model` is the one with deconvolutions; `sizes` gives its inputs other shapes, and those of
    `lowered` as well. A certificate is true where its layer is proved for every size; otherwise it
    has the `reason`, `holds_for` says for which sizes it is, or `assumed` on what. All together are
    true where something was rewritten and every layer of it is proved; `to_json` keeps them, with
    the hashes of two files. With `probe` both are evaluated as well, as `check_certificate` does,
    and the certificates have seed, bound and sizes. `check_certificate` says whether all else is
    the same, too. Raises what `read` and `infer` do.

    >>> g = ird.read("ir_samples/openvino/segmentation_head.xml")
    >>> proofs = ird.certify(g, ird.lower(g, "stacked"))
    >>> bool(proofs), len(proofs), [(c.layer, c.form, c.holds_for) for c in proofs][0]
    (True, 2, ('up1', 'stacked', 'the size [1, 16, 8, 8]'))
    """
    return check.certified(*sides(model, lowered, shapes=sizes), probe=probe, seed=seed)


def check_certificate(
    model: ModelLike,
    lowered: ModelLike,
    certificates: Sequence[Certificate] | str | PathLike[str] | None = None,
    *,
    sizes: Mapping[str, ShapeLike] | None = None,
    probe: bool = False,
    seed: int | None = None,
) -> CheckReport:
    """Prove every rewritten layer equal to the original, and all others to be unchanged.

    The report is true where at least one layer was rewritten and everything is proved for every
    size that `model` allows; `equal` also where some layer is for some sizes only, or only if what
    is `assumed` is so: what a file declares of operations that nobody knows. `sizes` asks for other
    shapes of inputs, such as exact ones. With `certificates` (or the file that `lower
    --certify` wrote) there must be exactly one for each rewritten layer, and all must state what
    the two models contain, and the hashes of their files. `probe` evaluates both sides instead of
    proving: modulo random primes, at random points that `seed` repeats; without one they are fresh.

    >>> low = ird.lower("ir_samples/openvino/segmentation_head.xml")
    >>> report = ird.check_certificate("ir_samples/openvino/segmentation_head.xml", low)
    >>> print(report)
    ok   up1: ConvolutionBackpropData = zero-insertion for the size [1, 16, 8, 8]
    ok   up2: GroupConvolutionBackpropData = zero-insertion for the size [1, 16, 16, 16]
    2 of 2 rewritten layers equal, 10 others unchanged
    >>> bool(report)
    True
    """
    both = sides(model, lowered, shapes=sizes)
    if probe:
        return check.probed(*both, seed=seed)
    if isinstance(certificates, str | PathLike):
        certificates = Certificates.from_json(Path(certificates).read_text("utf-8"))
    return check.checked(*both, certificates)
