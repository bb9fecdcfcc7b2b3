"""`python -m irdeconv` is the `irdeconv` command; it imports nothing before it minds Ctrl-C."""

EXIT_CODE = 130


def main() -> int:
    """Run the command line of this process and return its exit code."""
    try:
        from irdeconv.cli.interrupt import PROCESS

        PROCESS.watch()
        from irdeconv.cli.main import main as command

        code = command()
        PROCESS.finished()
    except KeyboardInterrupt:
        return EXIT_CODE
    return code


if __name__ == "__main__":
    raise SystemExit(main())
