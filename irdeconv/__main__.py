"""`python -m irdeconv` is the `irdeconv` command. Signal handlers come before all other imports."""

# `signal` takes milliseconds to import, in which Ctrl-C would end in a traceback.
import _signal  # type: ignore[import-not-found, unused-ignore]
import os


def main() -> int:
    """Run the command line of this process and return its exit code."""
    # The parent process may have set a signal to be ignored, as nohup does.
    handled = [
        number
        for number in (_signal.SIGINT, _signal.SIGTERM)
        if _signal.getsignal(number) in (_signal.default_int_handler, _signal.SIG_DFL)
    ]
    for number in handled:
        _signal.signal(number, _leave)
    from irdeconv.cli.interrupt import PROCESS
    from irdeconv.cli.main import main as command

    try:
        PROCESS.watch(handled)
        return command()
    finally:
        PROCESS.finish()


def _leave(number: int, _: object) -> None:
    """End the process; there is nothing to clean up yet."""
    os._exit(128 + number)


if __name__ == "__main__":
    raise SystemExit(main())
