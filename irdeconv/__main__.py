"""`python -m irdeconv` is the `irdeconv` command."""

import sys

from irdeconv.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
