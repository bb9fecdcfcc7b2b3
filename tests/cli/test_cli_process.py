"""The command as a process: start-up cost, pipes, terminals, stdin, signals."""

import os
import pty
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import irdeconv
from support.commands import Patch, answer
from support.rows import parts

pytestmark = pytest.mark.thorough

COMMAND = [sys.executable, "-m", "irdeconv"]


def process(*args: object, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        [*COMMAND, *map(str, args)], capture_output=True, text=True, timeout=60, **options
    )


def test_version_imports_nothing_heavy() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "irdeconv", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"irdeconv {irdeconv.__version__}\n"
    loaded = {line.split("|")[-1].strip().split(".")[0] for line in done.stderr.splitlines()}
    assert not loaded & {"numpy", "networkx", "lxml", "rich", "ml_dtypes"}


def test_importing_the_package_loads_nothing_else() -> None:
    code = "import sys, irdeconv; print(sorted(m for m in sys.modules if m[:3] in ('num', 'irde')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_doctor_starts_no_program() -> None:
    code = (
        "import sys; from irdeconv.cli.main import main\n"
        "def refuse(event, args):\n"
        "    if event in ('subprocess.Popen', 'os.system', 'os.exec', 'os.posix_spawn'):\n"
        "        raise AssertionError((event, args))\n"
        "sys.addaudithook(refuse)\n"
        "sys.exit(main(['doctor', '--format', 'json']))"
    )
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)


@pytest.mark.parametrize("more", [["--help"], ["x.xml", "--form", "gem"]], ids=["help", "mistake"])
def test_help_and_options_need_no_operations(more: list[str]) -> None:
    code = (
        "import sys; from irdeconv.cli.main import main\n"
        "for verb in ('lower', 'run', 'compare', 'bench'):\n"
        "    try: main([verb, *sys.argv[1:]])\n"
        "    except SystemExit: pass\n"
        "    found = [m for m in sys.modules if m.startswith(('irdeconv.ops', 'numpy'))]\n"
        "    print(f'\\n{verb} {found}')"
    )
    command = [sys.executable, "-c", code, *more]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (done.stdout + done.stderr).count("gemm") >= 4
    assert all(f"\n{verb} []\n" in done.stdout for verb in ("lower", "run", "compare", "bench"))


def test_exit_codes_reach_the_shell(net: Path) -> None:
    assert process("validate", net.with_name("none.xml")).returncode == 6
    assert process("validate").returncode == 2


def test_stdin(net: Path, monkeypatch: Patch) -> None:
    def read_by(*args: object, code: int = 0) -> str:
        with net.open() as stream:
            monkeypatch.setattr(sys, "stdin", stream)
            return answer(*args, code=code).out

    shown = read_by("validate", "-", code=1)
    assert shown.endswith("<stdin>: invalid, 1 error, 0 warnings\n")
    assert "<stdin>:7:1: error[E120]: the weights were not given" in shown
    shown = read_by("validate", "-", "--no-weights")
    assert shown.endswith("<stdin>: valid, 0 errors, 0 warnings, without weights\n")
    assert "<stdin>:7:1: note[W120]" in shown
    done = process("run", "-", "--weights", net.with_suffix(".bin"), input=net.read_text())
    assert (done.returncode, "[1, 2, 7, 7]" in done.stdout) == (0, True)


def test_arrays_on_stdout(net: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "run", net, "x=ones", "-o", "-"], capture_output=True, check=True
    )
    (tmp_path / "out.npz").write_bytes(done.stdout)
    with np.load(tmp_path / "out.npz") as archive:
        assert archive["y"].shape == (1, 2, 7, 7)


@pytest.mark.parametrize("format", parts(1, ["html", "text", "json", "dot", "ir"]))
def test_a_closed_pipe_is_quiet(net: Path, format: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    args = ["inspect", net, "--format", format]
    done = subprocess.run([*COMMAND, *args], stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_closed_pipe_keeps_the_verdict(tmp_path: Path) -> None:
    (tmp_path / "bad.xml").write_text("<net")
    reading, writing = os.pipe()
    os.close(reading)
    args = [*COMMAND, "validate", tmp_path / "bad.xml"]
    done = subprocess.run(args, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has /dev/full")
def test_a_full_disk_is_an_output_error(net: Path) -> None:
    with open("/dev/full", "w") as full:
        args = [*COMMAND, "inspect", net]
        done = subprocess.run(args, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 6
    assert done.stderr == "irdeconv: error: <stdout>: No space left on device\n"


def on_terminal(*args: object, **environment: str) -> str:
    """Run the command with a terminal as stdout and return what it shows."""
    mine, theirs = pty.openpty()
    env = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "TERM")}
    env |= {"TERM": "xterm", **environment}
    command = [*COMMAND, *map(str, args)]
    with subprocess.Popen(command, stdout=theirs, stderr=subprocess.PIPE, env=env):
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = os.read(mine, 4096)
            except OSError:  # how Linux reports that the other side is closed
                break
            if not part:
                break
            shown += part
    os.close(mine)
    return shown.decode()


def test_colours_only_on_a_terminal_that_wants_them(net: Path) -> None:
    assert "\x1b[1;32mvalid\x1b[0m" in on_terminal("validate", net)
    assert "\x1b" not in on_terminal("codes", "E302", NO_COLOR="1")
    assert "\x1b" not in on_terminal("codes", "E302", TERM="dumb")
    assert "\x1b[" in on_terminal("codes", "E302", NO_COLOR="")
    assert "\x1b" not in process("codes", "E302").stdout


def test_control_characters_of_names_do_not_reach_the_terminal(net: Path) -> None:
    net.write_text(net.read_text().replace('name="deconv"', 'name="&#x9b;31mred"'))
    shown = answer("inspect", net, code=3).err
    assert "\x9b" not in shown
    assert "\\x9b31mred" in shown
    net.write_text(net.read_text().replace("&#x9b;31mred", "&#x202e;cnoc"))  # reads backwards
    shown = answer("inspect", net).out
    assert "\u202e" not in shown
    assert "\\u202ecnoc" in shown


@pytest.mark.parametrize("format", parts(1, ["text", "json"]))
def test_ascii_output(net: Path, format: str) -> None:
    net.write_text(net.read_text().replace('name="deconv"', 'name="d\u00e9conv"'), "utf-8")
    env = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = process("inspect", net, "--format", format, env=env)
    assert done.returncode == 0
    assert format != "text" or "d\\xe9conv" in done.stdout


def test_interrupt() -> None:
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a job in the background does not
    started = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE, "preexec_fn": heed}
    with subprocess.Popen([*COMMAND, "validate", "-"], **started) as running:
        running.stdin.write(b" " * (1 << 20))  # returns when the command has begun to read
        running.send_signal(signal.SIGINT)
        try:
            assert running.wait(20) == 130
        finally:
            running.kill()
        assert b"Traceback" not in running.stderr.read()
