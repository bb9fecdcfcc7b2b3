"""Names of verbs and options in other tools.

Lines of other_tools.txt have an answer and names: of verbs, then, behind a blank line, of options.
An option has several answers: the first of these options that the verb has, or a sentence.
`bench:device` is an option of this verb only.
"""

from __future__ import annotations

from pathlib import Path

FILE = Path(__file__).parent / "other_tools.txt"
VERBS, OPTIONS = (
    {name: answers for answers, _, names in lines for name in names.split()}
    for lines in (
        [line.rpartition(": ") for line in text.split("\n")]
        for text in FILE.read_text("utf-8").split("\n\n")
    )
)
