"""`batch run --inputs` in parts, and `batch join`, which puts them together."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.formats.arrays import npz
from support.commands import Patch, answer, command
from support.ir_text import LAYER, W, write_ir
from support.memory import peak_of
from support.schemas import require_schema

RUN = ("batch", "run", "m.xml", "--jobs", "0", "-q")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: Patch) -> None:
    """A current folder."""
    monkeypatch.chdir(tmp_path)


def part(folder: str, rows: tuple[int, int, int], file: str = "x.npy", **more: Any) -> None:
    """What `batch run --inputs` writes of an item whose outputs are the numbers of its rows."""
    path = Path(folder, f"{file}-{rows[0]}_{rows[1]}")
    path.mkdir(parents=True)
    said = {"file": file, "rows": dict(zip(("begin", "end", "of"), rows, strict=True))}
    said |= {"origin": "here", **more.pop("said", {})}
    (path / "result.json").write_text(json.dumps(said))
    y = np.arange(rows[0], rows[1], dtype=np.float32)
    (path / "outputs.npz").write_bytes(npz({"y": y, **more}))


def join(*words: str, code: int = 0) -> str:
    """What `batch join` says of the places, or of why it refuses them."""
    return " ".join(answer("batch", "join", *words, code=code).err.split())


def test_shards_of_a_run_together_are_the_run() -> None:
    write_ir(Path("m.xml"), LAYER, W)
    images = np.random.default_rng(0).random((11, 3, 4, 4)).astype(np.float32)
    np.save("b.npy", images[:7])
    np.savez("a.npz", x=images[7:])
    inputs = ("--inputs", "b.npy", "--inputs", "a.npz", "--rows", "2")
    for number in (1, 2, 3):
        shard = ("--shard", f"{number}/3", "-o", f"part{number}")
        assert command(*RUN, *inputs, *shard, "--report", "r.json", "--threads", number) == 0
        found = json.loads(Path("r.json").read_text())["items"]
        require_schema(
            json.loads(Path(f"part{number}", found[0]["item"], "result.json").read_text())
        )
        assert len(found) == 2
    plan = ird.compile("m.xml", threads=1)
    want = np.concatenate([plan.run(images[i : i + 1])["y"] for i in range(11)])
    order = ("--inputs", "b.npy", "--inputs", "a.npz")
    words = ("part1", "part2", "part3", "part3/", "-o", "y.npy")
    assert answer("batch", "join", *words, *order).out == (
        "y float32[11, 2, 7, 7]\njoin: 11 rows of 2 files, in 6 parts\n"
    )
    assert np.array_equal(np.load("y.npy"), want)
    require_schema(answer("batch", "join", *words[:-1], "y.npz", "--format", "json").json)
    by_name = np.concatenate([want[7:], want[:7]])
    Path("all.npz").write_bytes(npz({"y": by_name}))
    assert Path("y.npz").read_bytes() == Path("all.npz").read_bytes()
    message = join("part1", "part3", "-o", "y.npy", code=2)
    assert "b.npy[4:7] is missing: 3 of 7 rows" in message
    assert "a.npz" not in message
    assert np.array_equal(np.load("y.npy"), want)


def test_gaps_and_overlaps_have_numbers() -> None:
    for rows in ((2, 4), (4, 6), (5, 9), (6, 7), (12, 14)):
        part("o", (*rows, 1000))
    Path("o/failed").mkdir()
    Path("o/failed/result.json").write_text('{"error": "no"}')
    message = join("o", "-o", "y.npy", code=2)
    for text in (
        "x.npy[0:2] is missing: 2 of 1,000 rows",
        "x.npy[5:6] is there twice: 1 row, in o/x.npy-4_6 and in o/x.npy-5_9",
        "x.npy[6:7] is there twice: 1 row, in o/x.npy-5_9 and in o/x.npy-6_7",
        "x.npy[9:12] is missing: 3 of 1,000 rows",
        "x.npy[14:1000] is missing: 986 of 1,000 rows",
        "--resume makes the rest; 1 item ended without outputs",
    ):
        assert text in message
    assert not Path("y.npy").exists()


def test_a_file_that_has_failed_is_missed() -> None:
    write_ir(Path("m.xml"), LAYER, W)
    np.save("good.npy", np.ones((2, 3, 4, 4), np.float32))
    np.save("bad.npy", np.ones((2, 2, 4, 4), np.float32))
    inputs = ("--inputs", "bad.npy", "--inputs", "good.npy", "--rows", "2")
    assert command(*RUN, *inputs, "-o", "o") == 2
    (failed,) = Path("o").glob("bad-*/result.json")
    require_schema(json.loads(failed.read_text()))
    message = join("o", "-o", "y.npy", code=2)
    assert "bad.npy is missing: its items ended without outputs" in message
    assert "--inputs" in message
    assert not Path("y.npy").exists()
    assert command("batch", "join", "o", "-o", "y.npy", "--inputs", "good.npy") == 0
    assert np.load("y.npy").shape[0] == 2


def test_rows_that_failed_elsewhere_are_not_missed() -> None:
    part("o", (0, 2, 2))
    Path("p/failed").mkdir(parents=True)
    Path("p/failed/result.json").write_text('{"error": "no", "file": "x.npy"}')
    assert command("batch", "join", "o", "p", "-o", "y.npy") == 0


def test_very_many_gaps_are_counted() -> None:
    for begin in range(0, 60, 2):
        part("o", (begin, begin + 1, 60))
    message = join("o", "-o", "y.npy", code=2)
    assert message.count("is missing:") == 20
    assert "and 10 more places like these" in message


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"said": {"origin": "there"}}, "x.npy[0:2] and x.npy[2:4] are not made alike"),
        ({"said": {"rows": {"begin": 2, "end": 4, "of": 5}}}, "has 4 rows in o/x.npy-0_2, 5 in o/"),
        ({"said": {"rows": {"begin": 4, "end": 2, "of": 4}}}, "does not say which rows it is of"),
        ({"said": {"rows": [1, "x"]}}, "does not say which rows it is of"),
        ({"z": np.zeros(2)}, "of x.npy[0:2] and of x.npy[2:4] do not fit: ['y'] and ['y', 'z']"),
        ({"y": np.zeros(2)}, '"y" has rows of float32[], then float64[]'),
        ({"y": np.zeros((2, 3), np.float32)}, '"y" has rows of float32[], then float32[3]'),
        ({"y": np.zeros((), np.float32)}, 'output "y" is a scalar'),
    ],
)
def test_parts_that_do_not_fit(more: dict[str, Any], message: str) -> None:
    part("o", (0, 2, 4))
    part("o", (2, 4, 4), **more)
    assert message in join("o", "-o", "y.npz", code=2)
    assert not Path("y.npz").exists()


def test_texts_are_as_long_as_the_longest() -> None:
    part("o", (0, 2, 4), y=np.array(["a", "b"], object))
    part("o", (2, 4, 4), y=np.array(["cde"], object))
    assert '"y" has 3 rows for 4 of the inputs' in join("o", "-o", "y.npy")
    assert np.load("y.npy").tolist() == ["a", "b", "cde"]
    assert "no results of it" in join("o", "-o", "y.npy", "--inputs", "z.npy", code=2)


def test_one_part_is_in_memory_at_a_time() -> None:
    for begin in range(0, 20, 2):
        part("o", (begin, begin + 2, 20), y=np.full((2, 1 << 18), begin, np.float32))
    code, peak = peak_of(lambda: command("batch", "join", "o", "-o", "y.npz", "-q"))
    assert code == 0
    assert peak < 10 << 20  # of 20 MiB
    with np.load("y.npz") as arrays:
        assert arrays["y"].shape == (20, 1 << 18)
        assert arrays["y"][:, 7].tolist() == [i // 2 * 2 for i in range(20)]
