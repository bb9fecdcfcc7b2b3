"""Enlarge a picture with a network, without its deconvolutions, and prove that it is the same.

A small super-resolution network with two deconvolutions comes with irdeconv. It is validated,
inferred, lowered, certified and run on a picture, as it stands and lowered; both are compared. Of
the picture that comes with it the original is known, so that the result is also measured against
bicubic enlargement. --input enlarges any picture twofold. The folder of -o gets the enlarged
picture, the lowered network and a page about it.
With --samples the packaged sample models are taken through everything instead: validate, infer,
lower, write, read back, run, compare; samples in `broken` must be refused. Open dimensions are run
with 8, or what is nearest to it.
Exit code 0 only where everything holds.
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
        "samples", metavar="SAMPLE", nargs="*", help="with --samples: which ones (default: all)"
    )
    parser.add_argument(
        "-i",
        "--input",
        dest="inputs",
        metavar="FILE",
        action="append",
        default=[],
        help="the picture to enlarge: PNG, JPEG or what else Pillow reads; with --samples "
        "NAME=VALUE, an input as run takes it",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        help=f"the folder for what is made (default: {FOLDER}); with --samples the lowered IRs "
        "are kept only with -o",
    )
    parser.add_argument(
        "--force", action="store_true", help="let -o overwrite files that are not of a demo"
    )
    parser.add_argument(
        "--samples", dest="all", action="store_true", help="take the sample models instead"
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
    from irdeconv.cli.samples import samples
    from irdeconv.errors import misused

    if word in samples():
        return misused(f'"{word}" is a sample', f"irdeconv demo --samples {word}")
    hint = f"a picture is named by --input: irdeconv demo --input {word}"
    return misused(f'"{word}" is neither an option nor a sample', hint)
