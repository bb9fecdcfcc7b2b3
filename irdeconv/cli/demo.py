"""Enlarge a picture with a small network, and check the network without its deconvolutions.

The network enlarges pictures twofold and has two deconvolutions. The demo validates it, lowers it,
proves that both are equal, runs both on a picture and compares every layer. The picture that comes
with irdeconv is first made smaller, so the result can be measured: its PSNR has to be better than
that of bicubic interpolation. The enlarged picture, the lowered network and a page that shows both
networks are written into a folder.

--input takes your own picture, of at most 16,000,000 pixels. Each million takes some 5 s. A large
picture is enlarged in pieces by the lowered network; the other one checks a single piece.

With --samples the demo takes the packaged sample models instead: it validates, infers, lowers,
writes, reads back, runs and compares each. Those in `broken` have to be refused. An open dimension
is run with 8, or the nearest size that is allowed.

The exit code is 0 only if every step succeeds.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from irdeconv.cli.console import Console
from irdeconv.cli.verbs import Verb

FOLDER = "irdeconv_demo"


VERB = Verb(
    f"""
    [SAMPLE ...]  with --samples: the samples to take (default: all)
    -i --input FILE ...  the picture to enlarge: PNG, JPEG, WebP, GIF, TIFF, BMP or PPM; with
        --samples an input of theirs, NAME=VALUE as in run @dest inputs
    -o --output DIR  the folder to write into (default: {FOLDER}); with --samples it gets the
        lowered IRs, and without -o nothing is kept
    --force  overwrite files that no demo has written
    --samples  take the sample models instead of a picture @dest all
    --list  list the samples and stop
    + FORM
    + TARGET
    --seed SEED  seed of rand and randn, with --samples (default: %(default)s) @whole 0 @default 0
    + FORMAT
    """,
    no="a step did not give what it should",
    example="irdeconv demo",
    differs=True,
    models=False,
)


def run(args: argparse.Namespace, console: Console) -> int:
    """Run the demonstration."""
    if args.all or args.list:
        from irdeconv.cli.demo_samples import run_samples

        return run_samples(args, console)
    from irdeconv.cli.demo_picture import run_picture

    if args.samples:
        raise _sample_meant(args.samples[0])
    return run_picture(args, Path(args.output or FOLDER), console)


def _sample_meant(word: str) -> Exception:
    """Return the error of a word that stands alone: a sample, or a picture."""
    from irdeconv.base.errors import misused
    from irdeconv.cli.samples import samples

    if word in samples():
        return misused(f'"{word}" is a sample', f"irdeconv demo --samples {word}")
    hint = f"a picture is named by --input: irdeconv demo --input {word}"
    return misused(f'"{word}" is neither an option nor a sample', hint)
