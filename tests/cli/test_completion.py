"""Shell completion, asked of the shells themselves."""

import os
import pty
import select
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from irdeconv.cli.about import SHELLS, script
from irdeconv.cli.verbs import VERBS
from support.commands import answer

INSTALLED = [s for s in SHELLS if shutil.which(s)]

BASH = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($#-1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
complete -p irdeconv | grep -q -- '-F _shtab_irdeconv' || exit 9
_shtab_irdeconv irdeconv "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""
CASES = [
    (["lo"], {"lower"}),
    (["check-c"], {"check-certificate"}),
    (["lower", "--fo"], {"--form", "--format", "--force"}),
    (["lower", "x.xml", "--form", "zero"], {"zero-insertion"}),
    (["run", "x.xml", "--form", "no"], {"none"}),
    (["inspect", "x.xml", "--color", "al"], {"always"}),
    (["validate", "mod"], {"model.xml"}),
    (["lower", "x.xml", "--output", "mod"], {"model.xml"}),
    (["demo", "--samples", "openvino/group"], {"openvino/group_deconv"}),
    (["help", "val"], {"validate"}),
    (["codes", "E30"], {f"E30{n}" for n in range(7)}),
]


def bash(file: Path, words: list[str]) -> set[str]:
    command = ["bash", "-c", BASH, "bash", str(file), "irdeconv", *words]
    run = subprocess.run(command, capture_output=True, text=True, cwd=file.parent, check=True)
    assert run.stderr == ""
    return set(run.stdout.split())


def fish(file: Path, words: list[str]) -> set[str]:
    command = ["fish", "--no-config", "-c", 'source $argv[1]; complete -C "$argv[2]"']
    asked = [*command, str(file), " ".join(["irdeconv", *words])]
    run = subprocess.run(asked, capture_output=True, text=True, cwd=file.parent, check=True)
    return {line.split("\t")[0] for line in run.stdout.splitlines()}


def zsh(file: Path, words: list[str]) -> set[str]:
    """Type the words and a tab in a terminal, and read what the line becomes or is offered."""
    shutil.copy(file, file.parent / "_irdeconv")
    mine, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "dumb", "PS1": "$ ", "ZDOTDIR": str(file.parent)}
    how = {"cwd": file.parent, "env": environment, "start_new_session": True}
    how |= dict.fromkeys(("stdin", "stdout", "stderr"), theirs)
    with subprocess.Popen(["zsh", "-f", "-i"], **how) as shell:
        os.close(theirs)
        setup = "fpath=($PWD $fpath); autoload -U compinit; compinit -u -D; unsetopt zle_bracketed"
        os.write(mine, f"{setup}; setopt no_list_beep; echo READ''Y\n".encode())
        read_until(mine, "READY")
        os.write(mine, " ".join(["irdeconv", *words]).encode() + b"\t\t")
        shown = read_until(mine, "\0", patience=1.0)
        shell.kill()
    os.close(mine)
    return set(shown.replace("\x07", "").split())


def read_until(terminal: int, text: str, patience: float = 20.0) -> str:
    """Read what a terminal shows, until a text comes or nothing more."""
    shown, end = "", time.monotonic() + patience
    while text not in shown and time.monotonic() < end:
        if select.select([terminal], [], [], 0.05)[0]:
            shown += os.read(terminal, 4096).decode("utf-8", "replace")
    return shown


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("shells")
    (folder / "model.xml").touch()
    files = {shell: folder / f"completion.{shell}" for shell in SHELLS}
    for shell, file in files.items():
        file.write_text(script(shell))
    return files


ASKED = [
    pytest.param(shell, words, expected, id=f"{shell}: {' '.join(words)}")
    for shell in INSTALLED
    for words, expected in (CASES[:8:2] if shell == "zsh" else CASES)  # zsh takes a second each
]


@pytest.mark.thorough
@pytest.mark.parametrize(("shell", "words", "expected"), ASKED)
def test_a_shell_completes(
    shell: str, words: list[str], expected: set[str], scripts: dict[str, Path]
) -> None:
    if shell == "zsh":  # shows the line that was typed as well
        assert expected <= zsh(scripts[shell], words)
    else:
        assert {"bash": bash, "fish": fish}[shell](scripts[shell], words) == expected


@pytest.mark.parametrize("shell", SHELLS)
def test_every_verb_and_option_is_there(shell: str, scripts: dict[str, Path]) -> None:
    text = scripts[shell].read_text()
    for word in (*VERBS, "explain-costs", "zero-insertion", "certify", "no-depth-to-space"):
        assert word in text


def test_it_is_printed(scripts: dict[str, Path]) -> None:
    assert answer("completion", "fish").out.rstrip() == scripts["fish"].read_text().rstrip()
