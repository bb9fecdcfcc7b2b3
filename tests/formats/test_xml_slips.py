"""Slips of an editor in the XML of a model: E101 names the character or the open element."""

from pathlib import Path

import irdeconv as ird
from support.rows import each_row

TEXT = Path("ir_samples/openvino/segmentation_head.xml").read_text()
OPEN = '<layer id="0">'


@each_row("old, new, place, message, hint", [
    ('"conv1/relu"', '"conv1&relu"', (51, 28), "a bare &", "write &amp;"),
    ('"conv1/relu"', '"a & b&amp;"', (51, 25), "a bare &", "write &amp;"),
    ('"conv1/relu"', '"conv1&nbsp;"', (51, 28), "a bare &", "write &amp;"),
    ('"conv1/relu"', '"conv1<relu"', (51, 28), "< inside a tag", "write &lt;"),
    ('"conv1/relu"', "conv1", (51, 22), "a value without quotes", 'write name="value"'),
    ('"conv1/relu" type', '"conv1/relu type', (51, 40), "behind a quote", "a quote is missing"),
    ('type="ReLU"', 'type="ReLU" type="ReLU"', (51, 47), "twice", "delete one"),
    ("</layer>", "", (342, 4), f"</layers> cannot close {OPEN}", f"close {OPEN} before it"),
    ("</layer>", "</layr>", (14, 5), f"</layr> cannot close {OPEN}", "write </layer>"),
    ("</layer>", "</layer></layer>", (14, 13), "cannot close <layers>", "no <layer> is open"),
    ("</net>", "</net><net/>", (364, 7), "something follows", "delete all"),
    ("</net>", "", (365, 1), "the file ends inside <net>", "cut off"),
])  # fmt: skip
def test_slips(old: str, new: str, place: tuple[int, int], message: str, hint: str) -> None:
    (found,) = ird.validate(TEXT.replace(old, new, 1).encode())
    assert (found.code, found.location and found.location.position) == ("E101", place)
    assert message in found.message
    assert hint in str(found.hint)
