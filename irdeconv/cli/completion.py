"""Print a script with which a shell completes verbs, options, choices and files.

bash, in ~/.bashrc: eval "$(irdeconv completion bash)".
zsh: irdeconv completion zsh > "${fpath[1]}/_irdeconv".
fish: irdeconv completion fish > ~/.config/fish/completions/irdeconv.fish.
"""

from __future__ import annotations

import argparse
import re
from typing import Any

from irdeconv.cli.console import Console
from irdeconv.cli.options import OptionParser, add_format

SHELLS = ("bash", "zsh", "fish")
_FILES = re.compile(r"FILE|LOWERED|OTHER")  # what the usage calls files


def configure(parser: OptionParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help="bash, zsh or fish")
    add_format(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    """Print the script."""
    text = script(args.shell)
    if console.wants_json:
        console.json("completion", {"shell": args.shell, "script": text})
    else:
        console.raw(text)
    return 0


def script(shell: str) -> str:
    """Return the script for a shell."""
    import shtab

    text: str = shtab.complete(_all_verbs(), shell)
    return text if text.endswith("\n") else f"{text}\n"


def _all_verbs() -> argparse.ArgumentParser:
    """Return one parser of the whole command, each verb a command below it."""
    from irdeconv.cli.main import VERBS, configure_verb

    whole = argparse.ArgumentParser(prog="irdeconv", description="OpenVINO-style IR")
    whole.add_argument("-V", "--version", action="store_true", help="show the version")
    verbs = whole.add_subparsers(dest="verb")
    for verb, text in VERBS.items():
        parser = verbs.add_parser(verb, help=text, description=text)
        configure_verb(parser, verb)
        for action in parser._actions:
            _describe(action, no_form=bool(parser.get_default("form_none")))
    verbs.add_parser("help", help="show the help of a verb").add_argument("verb", choices=[*VERBS])
    return whole


def _describe(action: Any, *, no_form: bool) -> None:
    """Say what the values of an option or argument may be."""
    import shtab

    from irdeconv.base.codes import CODES
    from irdeconv.base.form_names import AUTO, CONDITIONS
    from irdeconv.cli.samples import samples
    from irdeconv.rewrite.targets import target_names

    action.help = re.split("[:;] ", action.help or "")[0]  # a shell has little room
    known = {
        "--form": [*CONDITIONS, AUTO, *["none"] * no_form],
        "--target": target_names(),
        "SAMPLE": sorted(samples()),
        "CODE": [*CODES],
    }
    names = [*action.option_strings, str(action.metavar)]
    choices = next((known[n] for n in names if n in known), None)
    if choices is not None and action.choices is None:
        action.choices = choices
    elif _FILES.search(str(action.metavar)):
        action.complete = shtab.FILE
    elif action.metavar == "DIR":
        action.complete = shtab.DIRECTORY
