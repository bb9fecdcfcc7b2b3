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
from irdeconv.cli.options import OptionParser, add_form, add_format, add_seed, add_target

FOLDER = "irdeconv_demo"


def configure(parser: OptionParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument(
        "samples",
        metavar="SAMPLE",
        nargs="*",
        help="with --samples: the samples to take (default: all)",
    )
    parser.add_argument(
        "-i",
        "--input",
        dest="inputs",
        metavar="FILE",
        action="append",
        default=[],
        help="the picture to enlarge: PNG, JPEG, WebP, GIF, TIFF, BMP or PPM; with --samples an "
        "input of theirs, NAME=VALUE as in run",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        help=f"the folder to write into (default: {FOLDER}); with --samples it gets the lowered "
        "IRs, and without -o nothing is kept",
    )
    parser.add_argument(
        "--force", action="store_true", help="overwrite files that no demo has written"
    )
    parser.add_argument(
        "--samples",
        dest="all",
        action="store_true",
        help="take the sample models instead of a picture",
    )
    parser.add_argument("--list", action="store_true", help="list the samples and stop")
    add_form(parser, none=False)
    add_target(parser, costs=False)
    add_seed(parser, "rand and randn, with --samples")
    add_format(parser)


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
