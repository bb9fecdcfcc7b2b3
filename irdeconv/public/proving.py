"""Prove that a rewritten model equals the original."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike

from irdeconv.base import gc_pause, work
from irdeconv.base.arguments import checked
from irdeconv.formats.models import ModelLike
from irdeconv.rewrite.infer_specs import ShapeLike
from irdeconv.verify import check
from irdeconv.verify.certificates import Certificate, Certificates, CheckReport, read_certificates
from irdeconv.verify.proving import Given, both_sides


@checked
@work.counted
@gc_pause.paused()
def certify(
    model: ModelLike,
    lowered: ModelLike,
    *,
    sizes: Mapping[str, ShapeLike] | None = None,
    probe: bool = False,
    seed: int | None = None,
) -> Certificates:
    """Prove every layer that a lowering rewrote equal to the original; return certificates.

    `model` is the one with deconvolutions. `sizes` gives the inputs of both models other shapes.
    With `probe` both models are evaluated as well, as by `check_certificate`; the certificates then
    have seed, bound and sizes.

    A certificate is true if its layer is proved for every size. Otherwise `reason` says why not,
    `holds_for` for which sizes it is proved, or `assumed` under which assumptions. All certificates
    together are true if something was rewritten and every rewritten layer is proved. `to_json`
    keeps them, with the hashes of the two files. `check_certificate` also says whether everything
    else is the same.

    Raises the errors of `read` and `infer`.

    >>> g = ird.read("ir_samples/openvino/segmentation_head.xml")
    >>> proofs = ird.certify(g, ird.lower(g, "stacked"))
    >>> bool(proofs), len(proofs), [(c.layer, c.form, c.holds_for) for c in proofs][0]
    (True, 2, ('up1', 'stacked', 'the size [1, 16, 8, 8]'))
    """
    both = both_sides(Given(model), Given(lowered), sizes)
    return check.certified(*both, probe=probe, seed=seed)


@checked
@work.counted
@gc_pause.paused()
def check_certificate(
    model: ModelLike,
    lowered: ModelLike,
    certificates: Sequence[Certificate] | str | PathLike[str] | None = None,
    *,
    sizes: Mapping[str, ShapeLike] | None = None,
    probe: bool = False,
    seed: int | None = None,
) -> CheckReport:
    """Prove every rewritten layer equal to the original, and all others unchanged.

    The report is true if at least one layer was rewritten and everything is proved for every size
    that `model` allows. Its `equal` is also true if a layer is proved for some sizes only, or only
    under the assumptions in `assumed`: the file's declarations of unknown operations.
    `sizes` asks for other shapes of the inputs.

    `certificates`, or the file that `lower --certify` wrote, must have exactly one certificate for
    each rewritten layer. All must state the contents of the two models and their files' hashes.
    `probe` evaluates both sides instead of proving, at random points modulo random primes. `seed`
    repeats a probe; without it the points are new.

    >>> low = ird.lower("ir_samples/openvino/segmentation_head.xml")
    >>> report = ird.check_certificate("ir_samples/openvino/segmentation_head.xml", low)
    >>> print(report)
    ok   up1: ConvolutionBackpropData = zero-insertion for the size [1, 16, 8, 8]
    ok   up2: GroupConvolutionBackpropData = zero-insertion for the size [1, 16, 16, 16]
    2 of 2 rewritten layers equal, 10 others unchanged
    >>> bool(report)
    True
    """
    both = both_sides(Given(model), Given(lowered), sizes)
    if probe:
        return check.probed(*both, seed=seed)
    if isinstance(certificates, str | PathLike):
        certificates = read_certificates(certificates)
    return check.checked(*both, certificates)
