"""`python -m irdeconv` is the `irdeconv` command; before it imports anything it minds Ctrl-C."""

# `signal` takes milliseconds to import, in which Ctrl-C would end in a traceback.
import _signal  # type: ignore[import-not-found, unused-ignore]
import os

EXIT_CODE = 130


def main() -> int:
    """Run the command line of this process and return its exit code."""
    # Who has started it may have it ignored, as nohup does.
    minds = _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler
    if minds:
        _signal.signal(_signal.SIGINT, _leave)
    from irdeconv.cli.interrupt import PROCESS
    from irdeconv.cli.main import main as command

    try:
        if minds:
            PROCESS.watch()
        return command()
    finally:
        PROCESS.finish()


def _leave(*_: object) -> None:
    """End the process, while it has nothing to tidy up."""
    os._exit(EXIT_CODE)


if __name__ == "__main__":
    raise SystemExit(main())
