"""Write the generated pages of docs/, or say which are not what would be written.

python tools/make_pages.py                all
python tools/make_pages.py verbs codes    some
python tools/make_pages.py --check        exit code 1 where one is stale
"""

from __future__ import annotations

import argparse
import sys

import checkout  # noqa: F401
from pages import codes, faults, forms, operations, python, schemas, targets, verbs

MAKERS = {
    "codes": codes, "faults": faults, "forms": forms, "operations": operations, "python": python,
    "schemas": schemas, "targets": targets, "verbs": verbs,
}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MAKERS)}")
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args()
    stale = False
    for name in options.names or MAKERS:
        for path, text in MAKERS[name].pages().items():
            if path.exists() and path.read_text("utf-8") == text:
                continue
            stale = True
            print(f"{name}: {path}{' is stale' if options.check else ''}", flush=True)
            if not options.check:
                path.parent.mkdir(exist_ok=True)
                path.write_text(text, "utf-8")
    return 1 if options.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
