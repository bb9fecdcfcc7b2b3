"""Batches and blocks on Dask: the same bytes as in one process, whichever workers die."""

import json
import os
import shutil
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.base.errors import UsageError
from irdeconv.cli.batch_executors import Cluster, Errand, kept_whole
from support.commands import command

pytestmark = [
    pytest.mark.oracles,
    # Warnings of Dask's own: workers that are killed leave sockets and loops behind.
    pytest.mark.filterwarnings("ignore"),
]
ROOT = Path(__file__).resolve().parents[2]
HEAD = str(ROOT / "ir_samples/openvino/segmentation_head.xml")
CALL = "support.batch_calls:call"


def distributed() -> Any:
    """Return the module, which takes a second to import."""
    return pytest.importorskip("distributed")


def da() -> Any:
    return pytest.importorskip("dask.array")


@pytest.fixture(autouse=True)
def installed() -> None:
    distributed()
    da()


@pytest.fixture(scope="module", autouse=True)
def plain_kernels() -> Iterator[None]:
    """Take kernels of NumPy, here and in the workers: compiling takes longer than all items."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IRDECONV_FAST", "0")
        yield


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    import dask

    # Workers are copies of one process that has imported everything, also those that replace dead
    # ones.
    method = {"distributed.worker.multiprocessing-method": "forkserver"}
    with (
        dask.config.set(method),
        distributed().LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50
        ) as made,
        kept_whole(made, 2),
    ):
        yield made


@pytest.fixture(scope="module")
def images() -> Any:
    return np.random.default_rng(0).random((6, 3, 32, 32)).astype(np.float32)


def errand() -> Errand:
    return Errand(CALL, os.getcwd())


def test_reports_are_those_of_one_process(
    cluster: Any, images: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("segmentation_head", "deconv_3x3_to_5x5"):
        for suffix in (".xml", ".bin"):
            source = ROOT / "ir_samples/openvino" / f"{name}{suffix}"
            Path("models").mkdir(exist_ok=True)
            shutil.copy(source, "models")
    np.save("x.npy", images)
    pytest.importorskip("zarr").save("x.zarr", images)
    parts = ("run", "models/segmentation_head.xml", "--inputs", "x.npy", "--inputs", "x.zarr")
    how = ("--scheduler", cluster.scheduler_address)
    for words in (("lower", "models", "--certify"), (*parts, "--rows", "4")):
        made = []
        for where in (("--jobs", "0"), how):
            assert command("batch", *words, *where, "-o", "o", "--report", "r.json", "--force") == 0
            made.append(Path("r.json").read_bytes())
        assert made[0] == made[1]
    found = json.loads(made[0])["items"]
    assert [item["file"] for item in found] == ["x.npy", "x.npy", "x.zarr", "x.zarr"]
    pieces = [np.load(f"o/{item['item']}/outputs.npz")["mask"] for item in found]
    outputs = [np.concatenate(pieces[i : i + 2]) for i in (0, 2)]
    plan = ird.compile(HEAD, threads=1)
    want = np.concatenate([plan.run(images[i : i + 1])["mask"] for i in range(6)])
    assert all(np.array_equal(output, want) for output in outputs)


def test_no_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("irdeconv.cli.batch_executors.ANSWER_TIME", 0.2)
    with pytest.raises(UsageError, match="no scheduler of Dask answers"):
        list(Cluster(errand(), "tcp://127.0.0.1:1", 1, 1, None).results([{"how": "well"}]))


def test_what_accepts_and_is_mute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("irdeconv.cli.batch_executors.ANSWER_TIME", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(UsageError, match="no scheduler of Dask answers"):
            list(Cluster(errand(), address, 1, 1, None).results([{"how": "well"}]))


def test_a_scheduler_without_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("irdeconv.cli.batch_executors.WORKER_TIME", 0.2)
    with distributed().LocalCluster(
        n_workers=0, processes=False, dashboard_address=None, silence_logs=50
    ) as empty:
        results = Cluster(errand(), empty.scheduler_address, 1, 1, None).results([{"how": "well"}])
        with pytest.raises(UsageError, match="no worker has come"):
            list(results)


def test_workers_of_another_version(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("irdeconv.cli.batch_executors.__version__", "0.0.9")
    for _ in range(2):
        results = Cluster(errand(), cluster.scheduler_address, 2, 3, None).results(
            [{"how": "well"}]
        )
        with pytest.raises(UsageError, match=r"of Dask has irdeconv .*, the command has 0\.0\.9"):
            list(results)
        looked = "irdeconv.cli.batch_executors._require_version"
        monkeypatch.setattr(looked, lambda client, alone: set())


# -- blocks ----------------------------------------------------------------------------------------


def test_blocks_on_threads_and_on_workers(cluster: Any, images: Any) -> None:
    (mask,) = ird.map_blocks(HEAD, da().from_array(images, chunks=(2, 1, 16, 32))).values()
    plan = ird.compile(HEAD, threads=1)
    want = np.concatenate([plan.run(images[i : i + 1])["mask"] for i in range(6)])
    assert (mask.shape, mask.dtype, mask.chunks[0]) == (want.shape, want.dtype, (2, 2, 2))
    assert np.array_equal(mask.compute(scheduler="threads"), want)
    with distributed().Client(cluster):
        assert np.array_equal(mask.compute(), want)
        assert np.array_equal((mask + 1)[3:5].compute(), want[3:5] + 1)


SEVERAL = """graph 1 "two" <ir_version = 11> {
  %0 "x" = opset1.Parameter() {shape = [?, 4], element_type = f32} : f32[?,4]
  %1 "y" = opset1.Parameter() {shape = [?, 4], element_type = f32} : f32[?,4]
  %2 "b" = opset1.Parameter() {shape = [4], element_type = f32} : f32[4]
  %3 "sum" = opset1.Add(%0, %1) : f32[?,4]
  %4 "more" = opset1.Add(%3, %2) : f32[?,4]
  %5 "big" = opset1.Greater(%4, %2) : boolean[?,4]
  %6 "out0" = opset1.Result(%4) : f32[?,4]
  %7 "out1" = opset1.Result(%5) : boolean[?,4]
}
"""


def test_several_inputs_and_outputs() -> None:
    graph = ird.parse(SEVERAL)
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((7, 4)).astype(np.float32) for _ in range(2))
    b = np.arange(4, dtype=np.float32)
    given = {"x": da().from_array(x, (3, 2)), "y": da().from_array(y, (3, 4)), "b": b}
    found = ird.map_blocks(graph, given)
    assert [a.chunks for a in found.values()] == [((3, 3, 1), (4,))] * 2
    assert [a.dtype for a in found.values()] == [np.float32, np.bool_]
    more, big = da().compute(*found.values(), scheduler="sync")
    assert np.array_equal(more, x + y + b)
    assert np.array_equal(big, x + y + b > b)
    with pytest.raises(UsageError, match="unlike chunks"):
        ird.map_blocks(graph, {**given, "y": da().from_array(y, (2, 4))})
    with pytest.raises(UsageError, match='input "b" is missing'):
        ird.map_blocks(graph, {"x": given["x"], "y": given["y"]})


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (lambda: np.zeros((1, 3, 32, 32)), "none of the inputs is an array of Dask"),
        (lambda: {"x": da().zeros((1, 3, 32, 32))}, 'has no input "x"'),
        (dict, 'input "image" is missing'),
        (lambda: da().zeros((2, 5, 32, 32)), "data has 5 channels"),
        (lambda: da().zeros((2, 3, 32)), "does not fit"),
    ],
)
def test_arrays_that_do_not_fit(inputs: Any, message: str) -> None:
    with pytest.raises(ird.IrdeconvError, match=message):
        ird.map_blocks(HEAD, inputs())


# -- workers that stop and die: the last tests, for the cluster is worse for it --------------------


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nobody be waited for long."""
    monkeypatch.setattr("irdeconv.cli.batch_executors.ASKED_TIME", 0.5)
    monkeypatch.setattr("irdeconv.cli.batch_executors.LOOK_EVERY", 0.2)
    # signs of life come every half second, or later on a busy machine
    monkeypatch.setattr("irdeconv.cli.batch_executors.MUTE_LOOKS", 15)


def test_a_worker_that_was_stopped_before_is_done_without(
    cluster: Any, short: None, tmp_path: Path
) -> None:
    said: list[str] = []
    shutil.copy(HEAD, tmp_path / "m.xml")
    work = Cluster(errand(), cluster.scheduler_address, 2, 3, str(tmp_path / "m.xml"), said.append)
    victim = next(iter(cluster.workers.values()))
    os.kill(victim.pid, signal.SIGSTOP)
    try:
        rows = dict(work.results([{"how": "well"}] * 20))
    finally:
        os.kill(victim.pid, signal.SIGCONT)
    assert len(rows) == 20
    assert said == [
        f"the worker {victim.worker_address} of Dask does not answer; its items go to others"
    ]


def test_a_worker_that_stops_in_an_item_loses_nothing_and_may_come_back(
    cluster: Any, short: None, tmp_path: Path
) -> None:
    said: list[str] = []
    payloads = [
        {"how": "mark", "folder": str(tmp_path), "name": str(i), "seconds": 0.1} for i in range(20)
    ]
    work = Cluster(errand(), cluster.scheduler_address, 2, 3, None, said.append)
    rows: dict[int, Any] = {}
    victim = next(iter(cluster.workers.values()))
    address = victim.worker_address
    try:
        for index, row in work.results(payloads):
            assert index not in rows
            rows[index] = row["summary"]
            if len(rows) == 5:
                os.kill(victim.pid, signal.SIGSTOP)
            elif said and len(said) == 1:
                os.kill(victim.pid, signal.SIGCONT)
    finally:
        os.kill(victim.pid, signal.SIGCONT)
    assert rows == dict.fromkeys(range(20), "mark")
    assert said[0] == f"the worker {address} of Dask does not answer; its items go to others"
    assert said[1:] in ([], [f"the worker {address} of Dask answers again"])


def test_an_item_that_takes_its_worker_along_ends_as_crashed(cluster: Any, tmp_path: Path) -> None:
    """Other items may begin twice, and end once."""
    mine, others = tmp_path / "mine", tmp_path / "others"
    mine.mkdir()
    others.mkdir()
    mark = {"how": "mark", "folder": str(others), "seconds": 0.05}
    payloads: list[dict[str, Any]] = [{**mark, "folder": str(mine), "name": "0", "seconds": 30}]
    payloads += [{"how": "crash"}, *({**mark, "name": str(i)} for i in range(10))]
    over = threading.Event()

    def hunt() -> None:
        pause = 0.05
        while not over.wait(pause):
            for path in mine.iterdir():  # its worker's child has begun
                pause = 2  # then items of the other thread, which began anew as well, have ended
                child = int(path.name.split("-")[1])
                path.unlink()
                status = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2]
                os.kill(int(status.split()[1]), signal.SIGKILL)

    hunter = threading.Thread(target=hunt)
    hunter.start()
    try:
        found = list(Cluster(errand(), cluster.scheduler_address, 2, 1, None).results(payloads))
    finally:
        over.set()
        hunter.join()
    rows = dict(found)
    assert len(found) == len(rows) == 12
    assert {rows[i]["summary"] for i in range(2, 12)} == {"mark"}
    assert len({path.name.split("-")[0] for path in others.iterdir()}) == 10
    assert rows[0]["summary"] == "2 workers of Dask died or fell silent while they had this item"
    assert rows[1]["summary"] == "the process of this item was ended by signal 9"
