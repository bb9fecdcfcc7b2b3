"""`python -m irdeconv.proof A.xml B.xml`: does B compute the same as A?

Exit code 0: proved for every size. 3: for the listed sizes, or if listed assumptions are true. 1:
not proved.
"""

import sys
import textwrap
from collections.abc import Callable

from irdeconv.proof.model import COUNTERS, Unproved, need
from irdeconv.proof.pairing import check
from irdeconv.proof.reader import read

MOST_WORK = 2**29  # units of 10 nanoseconds


def limited() -> Callable[[int], None]:
    """Return a counter that refuses more than the most work."""
    used = [0]

    def count(units: int) -> None:
        used[0] += units
        need(used[0] <= MOST_WORK, f"it takes more than {MOST_WORK:,} steps")

    return count


def main() -> int:
    """Print the verdict on the two files that are named."""
    if len(sys.argv) != 3:
        lines, code = ["usage: python -m irdeconv.proof A.xml B.xml"], 2
    else:
        COUNTERS.append(count := limited())
        try:
            verdict = check(read(sys.argv[1]), read(sys.argv[2]))
            lines, code = verdict.lines(), verdict.exit_code
        except Unproved as error:
            lines, code = [f"not proved: {error}"], 1
        except Exception as error:
            lines, code = [f"not proved: the proof itself failed ({error!r})"], 1
        finally:
            COUNTERS.remove(count)
    # Names come from the files: what steers a terminal is not printed.
    for line in lines:
        plain = "".join(c if c.isprintable() else "?" for c in line)
        print(textwrap.fill(plain, 80, subsequent_indent="    ", break_on_hyphens=False))
    return code


if __name__ == "__main__":
    sys.exit(main())
