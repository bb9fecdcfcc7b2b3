"""`--watch`: a verb runs again when its files change."""

import shutil
from pathlib import Path

import pytest

from irdeconv.cli import checks
from support.commands import Patch, answer

MODEL = "ir_samples/openvino/deconv_3x3_to_5x5.xml"
VERBS = {
    "validate": "valid, 0 errors",
    "infer": "3 tensors",
    "lower": "1 deconvolution of 1 lowered",
    "inspect": "4 layers (1 constant)",
    "run": "float32 ",
    "compare": "the same: 1 output",
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_change_runs_the_verb_again(verb: str, tmp_path: Path, monkeypatch: Patch) -> None:
    net = tmp_path / "net.xml"
    for suffix in (".xml", ".bin"):
        shutil.copy(Path(MODEL).with_suffix(suffix), net.with_suffix(suffix))
    whole, looks = net.read_text(), 0

    def sleep(seconds: float) -> None:
        nonlocal looks
        looks += 1
        if looks == 2:
            net.write_text(whole[:200])
        elif looks == 5:
            net.unlink()
        elif looks == 8:
            net.write_text(whole + "\n")
        elif looks == 12:
            raise KeyboardInterrupt

    monkeypatch.setattr(checks.time, "sleep", sleep)
    found = answer(verb, net, "--watch", code=130)
    assert found.words.count(VERBS[verb]) == 2, found
    assert found.err.count("watching ") == 4
    assert found.words.count("error[E1") == 2, "cut off, then gone"
