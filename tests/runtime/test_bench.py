"""Benchmarks: statistics, what steps are said to do, the report. No test looks at a real time."""

import itertools
import json
import math
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.cli.main import main
from irdeconv.ir.graph import Graph, Value
from irdeconv.ops.activation import ReLU
from irdeconv.ops.elementwise import Add
from irdeconv.runtime import measure
from irdeconv.runtime.bench import BenchReport, Interval95, Ratio, SavedReport, against, bench
from irdeconv.runtime.measure import (
    MOST,
    SIDE,
    Ceilings,
    Clock,
    Conditions,
    Effort,
    Histogram,
    Quantiles,
    Sample,
    Timing,
    gflops,
    in_parallel,
    interleaved,
    measure_ceilings,
    median_interval,
    percentile,
    products,
    rate,
    timed,
    traffic,
)
from irdeconv.runtime.peers import Peer, difference
from support.commands import answer
from support.layers import Layer, begun, build, constant, numbers, result
from support.rows import tables

TABLES = tables(__file__)

LAYER = Layer(2, (4, 5), None, 3, 6, (3, 2), (2, 2), (1, 1), (1, 0), (0, 1), (0, 0))
W = numbers(np.random.default_rng(0), LAYER.filter_shape, np.float32)
X = numbers(np.random.default_rng(1), LAYER.data_shape, np.float32)
CEILINGS = Ceilings(gemm=80.0, gemm_all=150.0, copy=20.0, cores=2)
TICK = 2.0**-10  # exact in binary, so sums of ticks are


def ticking(step: float) -> Callable[[], float]:
    """A clock that goes on by `step` whenever it is read."""
    now = 0.0

    def read() -> float:
        nonlocal now
        now += step
        return now

    return read


def nothing() -> None:
    """Nothing to measure."""


def fake_clock() -> Clock:
    """Wall time goes twice as fast as processor time."""
    return Clock(wall=ticking(2 * TICK), cpu=ticking(TICK))


def test_percentiles_are_measured_values() -> None:
    ranked = [float(v) for v in range(1, 11)]
    assert [percentile(ranked, q) for q in (1, 10, 11, 50, 90, 91, 99, 100)] == [
        *(1, 1, 2, 5, 9, 10, 10, 10)
    ]
    assert percentile([7.0], 50) == 7.0
    found = Quantiles.of([float(v) for v in range(100, 0, -1)])
    assert (found.minimum, found.median, found.p90) == (1, 50, 90)
    assert (found.p95, found.p99, found.maximum) == (95, 99, 100)
    found = Quantiles.of([3.0, 1.0, 2.0])
    assert (found.minimum, found.median, found.p90, found.maximum) == (1, 2, 3, 3)


def test_the_interval_of_a_median() -> None:
    """Of 100 values the ranks 40 and 61: P(40 <= B <= 60) of a binomial B(100, 1/2) is 0.965."""
    mixed = [float(v) for v in np.random.default_rng(0).permutation(100) + 1]
    low, high = median_interval(mixed)
    parts = [sorted(mixed[i : i + 20])[9] for i in range(0, 100, 20)]
    assert (low, high) == (min(40.0, *parts), max(61.0, *parts))
    assert median_interval([5.0, 1.0, 3.0]) == (1.0, 5.0)  # three values bound nothing
    drifting = [1.0] * 50 + [2.0] * 50
    assert median_interval(drifting) == (1.0, 2.0)
    inside = [
        (lambda ends: ends[0] <= 0 <= ends[1])(median_interval(list(values)))
        for values in np.random.default_rng(1).standard_normal((400, 60))
    ]
    assert np.mean(inside) > 0.95


def test_both_clocks_are_read_around_the_call() -> None:
    events: list[str] = []

    def reader(name: str) -> Callable[[], float]:
        tick = ticking(TICK)
        return lambda: events.append(name) or tick()  # type: ignore[func-returns-value]

    sample = timed(lambda: events.append("call"), Clock(reader("wall"), reader("cpu")))
    assert events == ["wall", "cpu", "call", "cpu", "wall"]
    assert sample == Sample(TICK, TICK)


def test_rounds_are_interleaved_and_warmed_up() -> None:
    order: list[str] = []
    calls = {name: lambda name=name: order.append(name) for name in "ab"}
    found = interleaved(
        calls,
        Effort(rounds=2, time=0.0),
        clock=fake_clock(),
        warm_up={"b": lambda: order.append("warm")},
    )
    assert order == ["a", "a", "warm", "b"] * 2
    assert {k: len(v) for k, v in found.items()} == {"a": 2, "b": 2}


def test_a_round_lasts_as_long_as_it_should() -> None:
    # A call reads the wall clock three times: around it, and to see whether the round is over.
    found = interleaved({"a": nothing}, Effort(rounds=1, time=60 * TICK), clock=fake_clock())
    assert len(found["a"]) == 10
    still = Clock(wall=lambda: 0.0, cpu=lambda: 0.0)
    found = interleaved({"a": nothing}, Effort(rounds=1, time=1.0), clock=still)
    assert len(found["a"]) == MOST


def test_iterations_are_shared_out_to_the_rounds() -> None:
    assert Effort(rounds=5, iterations=12).turns == [2, 2, 3, 2, 3]
    assert Effort(rounds=5, iterations=2).turns == [1, 1]
    assert Effort(rounds=2).turns == [None, None]
    found = interleaved({"a": nothing}, Effort(rounds=5, iterations=12), clock=fake_clock())
    assert len(found["a"]) == 12
    # The time ends first: each round has one turn of 30 ticks, three readings of the clock.
    found = interleaved(
        {"a": nothing}, Effort(rounds=2, iterations=100, time=60 * TICK), clock=fake_clock()
    )
    assert len(found["a"]) == 2 * 5


def test_warm_up() -> None:
    calls: list[int] = []
    effort = Effort(rounds=2, iterations=2, warm_up=7)
    found = interleaved({"a": lambda: calls.append(1)}, effort, clock=fake_clock())
    assert len(found["a"]) == 2
    assert len(calls) == 7 + 1 + 1 + 1  # the second round has one of its own
    calls.clear()
    interleaved({"a": lambda: calls.append(1)}, Effort(rounds=1, iterations=1, warm_up=0),
                clock=fake_clock())  # fmt: skip
    assert len(calls) == 1


def test_a_histogram() -> None:
    found = Histogram.of([1.0, 1.0, 2.0, 4096.0])
    assert len(found.counts) == len(found.edges) - 1 == 12
    assert found.edges == pytest.approx([2.0**i for i in range(13)])
    assert found.counts == (2, 1, *(0,) * 9, 1)
    lines = found.lines()
    assert lines[0].startswith("   1000.000 -    2000.000 ms 2 ####")
    assert max(map(len, lines)) <= 80
    assert Histogram.of([3.0, 3.0]).counts == (2,)
    assert Histogram.of([0.0, 3.0]).counts == (2,)
    times = np.random.default_rng(0).lognormal(size=500).tolist()
    assert sum(Histogram.of(times).counts) == 500


def test_requests_at_once() -> None:
    """Three threads between which a barrier in each run lets none get ahead."""
    meet, now = threading.Barrier(3), itertools.count()
    clock = Clock(wall=lambda: next(now) * TICK, cpu=lambda: 0.0)
    effort = Effort(time=1.0, iterations=12, warm_up=2)
    report, latencies = in_parallel([meet.wait] * 3, effort, clock)
    assert (report.requests, report.runs, len(latencies)) == (3, 12, 12)
    assert report.throughput == 12 / report.seconds
    assert report.latency == Quantiles.of(latencies)
    # 3 readings for the ends, then a reading at the begin and the end of each of 12 runs.
    assert next(now) == 3 + 2 * 12
    assert 0 < report.seconds < 27 * TICK


def test_a_request_that_fails() -> None:
    def fails() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        in_parallel([fails, nothing], Effort(time=0.0), fake_clock())


def test_rates() -> None:
    assert gflops(3 * 10**9, 2.0) == 3.0
    assert rate(5 * 10**9, 2.0) == 2.5
    assert gflops(1, 0.0) == 0.0


def test_ceilings_by_a_fake_clock() -> None:
    found = measure_ceilings(fake_clock(), cores=2)
    assert found.gemm == gflops(SIDE**3, TICK)
    assert found.gemm_all == gflops(2 * SIDE**3, 2 * TICK)
    assert found.copy == rate(2 * measure.COPIED, TICK)
    assert found.peak(1) == found.gemm
    assert found.peak(2) == found.peak(3) == found.gemm_all
    assert Ceilings(gemm=80.0, gemm_all=160.0, copy=1.0, cores=8).peak(4) == 80.0


def test_conditions_name_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Conditions.now()
    assert found.cpu
    assert found.cores >= 1
    assert found.numpy == np.__version__
    assert found.irdeconv == ird.__version__
    assert found.date.endswith("+00:00")
    monkeypatch.setenv("IRDECONV_FAST", "0")
    assert Conditions.now().numba is None


def steps_of(graph: Graph, **options: Any) -> list[tuple[list[str], int | None, int | None]]:
    program = ird.compile(graph, **options).program([X])
    return [
        ([n.type for n in s.nodes], products(program.graph, s), traffic(program.graph, s))
        for s in program.steps
    ]


def test_a_view_moves_nothing() -> None:
    text = """graph 1 "g" {
      %0 "x" = opset1.Parameter() {shape = [1200, 1000], element_type = f32}
      %1 "shape" = opset1.Const() {element_type = i64, shape = [1], data = [1200000]}
      %2 "flat" = opset1.Reshape(%0, %1)
      %3 "relu" = opset1.ReLU(%2)
      %4 "y" = opset1.Result(%3)
    }"""
    graph = ird.infer(ird.parse(text))
    program = ird.compile(graph).program([np.ones((1200, 1000), np.float32)])
    assert [traffic(program.graph, s) for s in program.steps] == [0, 2 * 4_800_000]


def test_inserted_zeros_do_not_count_where_they_are_taken_in() -> None:
    graph, _ = build(LAYER, X, W)
    [(types, macs, moved)] = steps_of(ird.infer(graph))
    assert types == ["ZeroInsertion", "StridedSlice", "Convolution"]
    assert macs == LAYER.products == 2 * 20 * 3 * 6 * 6
    out = 2 * 6 * math.prod(LAYER.output_size)
    bounds = 3 * 4 * 8  # the constants of StridedSlice: i64, one value per axis
    assert moved is not None
    assert 4 * (X.size + W.size + out) <= moved <= 4 * (X.size + W.size + out) + bounds + 4


def test_node_by_node_they_are_multiplied_and_count() -> None:
    graph, _ = build(LAYER, X, W)
    by_type = {types[0]: (macs, moved) for types, macs, moved in steps_of(graph, fuse=False)}
    out = 2 * math.prod(LAYER.output_size)
    spread = 2 * 3 * 8 * 10
    assert by_type["Convolution"][0] == out * W.size
    assert by_type["ZeroInsertion"] == (0, 4 * (X.size + spread))


def test_sizes_that_are_only_known_when_running() -> None:
    graph, _ = build(LAYER, X, W, data_shape=[2, 3, None, None])
    [(_, macs, moved)] = steps_of(ird.infer(graph), form=None, fuse=False)
    assert (macs, moved) == (None, None)
    [(_, macs, _)] = steps_of(ird.infer(graph))  # a fused plan is made for the sizes it meets
    assert macs == LAYER.products


def network() -> Graph:
    """y = relu(deconvolution(x)) + relu(x summed with itself), two outputs."""
    graph, x = begun(X.shape)
    up = Value(graph.add(LAYER.op, [x, constant(graph, W, "w")], name="up").id)
    result(graph, Value(graph.add(ReLU(), [up], name="act").id), "y")
    double = Value(graph.add(Add(), [x, x], name="double").id)
    result(graph, double, "z")
    return graph


def measured(*peers: Peer, threads: int = 1, requests: int = 1, **options: Any) -> BenchReport:
    return bench(
        [ird.compile(network(), threads=threads, **options)] * requests,
        [X],
        Effort(rounds=3, time=0.0),
        form="zero-insertion",
        peers=peers,
        clock=fake_clock(),
        ceilings=CEILINGS,
    )


def test_the_report_adds_up() -> None:
    report = measured()
    assert report.network == Timing.of([Sample(2 * TICK, TICK)] * 3)
    assert {s.layer for s in report.steps} == {"act", "double"}
    assert all(s.timing == report.network for s in report.steps)
    figures = {s.layer: report.figures(s) for s in report.steps}
    assert sum(f["share"] or 0 for f in figures.values()) == 1.0
    assert figures["act"]["gflops"] == 2 * LAYER.products / TICK / 1e9
    assert figures["act"]["of_peak"] == 2 * LAYER.products / TICK / 1e9 / 80.0
    assert figures["double"]["gflops"] is None
    assert figures["double"]["gbytes"] == 2 * 4 * X.size / TICK / 1e9
    assert figures["double"]["of_copy"] == 2 * 4 * X.size / TICK / 1e9 / 20.0
    assert report.memory.outputs == 4 * (X.size + 2 * 6 * math.prod(LAYER.output_size))


def test_with_several_threads_wall_time_counts() -> None:
    report = measured(threads=2)
    assert (report.clock, report.threads) == ("wall", 2)
    [act] = [s for s in report.steps if s.layer == "act"]
    assert report.figures(act)["of_peak"] == 2 * LAYER.products / (2 * TICK) / 1e9 / 150.0


def test_the_slowest_steps_come_first() -> None:
    report = measured(fuse=False)
    order = [report.time(s.timing) for s in report.slowest]
    assert order == sorted(order, reverse=True)
    assert not report.fused
    assert "node by node" in str(report)
    text = report.to_text(top=2)
    assert f"2 slowest of {len(report.steps)} steps" in text
    assert report.memory.evaluated > 0


def test_the_report_as_json() -> None:
    document = json.loads(json.dumps(measured().to_dict()))
    assert document["schema"] == "irdeconv/bench/1"
    assert document["clock"] == "cpu"
    assert document["network"]["runs"] == 3
    assert document["network"]["wall"]["minimum"] == 2 * TICK
    assert document["throughput"] == 1 / (2 * TICK)
    assert (document["rounds"], document["time"], document["iterations"]) == (3, 0.0, None)
    assert document["histogram"] == {"edges": [2 * TICK, 2 * TICK], "counts": [3]}
    assert document["parallel"] is None
    [act] = [s for s in document["steps"] if s["layers"][-1] == {"type": "ReLU", "name": "act"}]
    assert act["kernel"].startswith("deconvolution ")
    assert act["macs"] == LAYER.products
    assert act["share"] == 0.5


def test_peers_are_run_in_the_same_rounds() -> None:
    own = ird.run(network(), [X])
    calls = []

    def run() -> list[Any]:
        calls.append(1)
        return [a * np.float32(1.5) for a in own.values()]

    report = measured(Peer("other", "1.0", run), Peer("absent", "2.0", None, "it cannot"))
    other, absent = report.peers
    assert len(calls) == 3 * 2 + 1  # each round warms up and measures; the last one compares
    assert (other.ratio, other.problem) == (1.0, None)
    assert other.difference == pytest.approx(1 / 3)
    assert absent.ratio is None
    text = str(report)
    assert "other 1.0" in text
    assert "absent 2.0 cannot run it: it cannot" in text


def test_requests_in_the_report() -> None:
    report = measured(requests=2)
    assert report.parallel is not None
    assert (report.parallel.requests, report.parallel.runs) == (2, 2)
    assert report.throughput == report.parallel.throughput
    text = report.to_text(histogram=True)
    assert "2 requests" in text
    assert "runs/s in 2 requests at once" in text
    assert report.histogram.lines()[0] in text
    assert max(map(len, text.splitlines())) <= 80


def test_difference() -> None:
    a = np.array([1.0, -4.0, np.nan, np.inf])
    assert difference([a], [a.copy()]) == 0.0
    assert difference([a], [np.array([2.0, -4.0, np.nan, np.inf])]) == 0.25
    assert math.isinf(difference([a], [np.array([1.0, -4.0, 0.0, np.inf])]))
    assert math.isinf(difference([a], [a[:2]]))
    assert math.isinf(difference([a], []))
    assert difference([np.zeros(2)], [np.full(2, 1e-3)]) == 1.0
    assert difference([np.full(2, 1e-3)], [np.zeros(2)]) == 1e-3
    assert difference([np.zeros(0)], [np.zeros(0)]) == 0.0


@pytest.mark.parametrize(
    "options", [{"rounds": 0}, {"time": -1.0}, {"time": math.nan}, {"against": ["tvm"]},
                {"against": ["openvino"], "threads": 2}, {"iterations": 0}, {"requests": 0},
                {"requests": 10_000}, {"warm_up": -1}],
)  # fmt: skip
def test_options_that_do_not_fit(options: dict[str, Any]) -> None:
    with pytest.raises(ird.UsageError):
        ird.bench(network(), [X], **options)


def test_a_peer_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("irdeconv.runtime.peers.installed", lambda package: None)
    with pytest.raises(ird.UnsupportedError, match="needs the package onnxruntime"):
        ird.bench(network(), [X], against=["onnxruntime"])


# Saved reports of `bench`: ratios with intervals, what differs of the machine, exit codes.


MODEL = str(Path(__file__).resolve().parents[2] / "ir_samples/openvino/segmentation_head.xml")
QUICK = ("--iterations", "3", "--rounds", "1", "--time", "0")


@pytest.fixture(autouse=True)
def ceilings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("irdeconv.runtime.bench.measure_ceilings", lambda clock: CEILINGS)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "before.json"
    answer("bench", MODEL, *QUICK, "--save", path)
    return path


def scaled(path: Path, target: Path, factor: float, **facts: Any) -> Path:
    """A report whose times are `factor` times as long, each known to 1 %."""
    document = json.loads(path.read_text("utf-8"))
    timings = [document["network"], *(s["timing"] for s in document["steps"])]
    for quantiles in (t[clock] for t in timings for clock in ("cpu", "wall")):
        median = factor * quantiles["median"]
        quantiles |= {"median": median, "low": 0.99 * median, "high": 1.01 * median}
    document["conditions"] |= facts
    target.write_text(json.dumps(document))
    return target


def test_a_ratio_by_hand() -> None:
    found = Ratio.of(Interval95(2.0, 1.0, 4.0), Interval95(6.0, 3.0, 12.0))
    assert found is not None
    assert (found.ratio, found.verdict) == (3.0, "slower")
    wide = math.exp(math.log(2) * math.sqrt(2))  # both medians are known up to a factor of 2
    assert found.low == pytest.approx(3 / wide)
    assert found.high == pytest.approx(3 * wide)
    sure = Interval95(2.0, 2.0, 2.0)
    assert Ratio.of(sure, Interval95(1.0, 1.0, 1.0)) == Ratio(2.0, 1.0, 0.5, 0.5, 0.5)
    same = Ratio.of(Interval95(2.0, 1.9, 2.1), Interval95(2.1, 2.0, 2.2))
    assert same is not None
    assert same.verdict == "same"
    assert Ratio.of(Interval95(0.0, 0.0, 0.0), sure) is None


def test_reports_beside_each_other(saved: Path, tmp_path: Path) -> None:
    report = ird.bench(MODEL, [np.ones((1, 3, 32, 32), np.float32)], iterations=3, rounds=1)
    now = SavedReport("now", report.to_dict())
    tight = tmp_path / "now.json"
    tight.write_text(json.dumps(dict(now.content)))
    same = against(SavedReport.read(tight), now.content)
    assert same.network is not None
    assert (same.network.ratio, same.unlike) == (1.0, ())
    assert [name for name, _ in same.steps] == [s.layer for s in report.slowest]
    half = against(SavedReport.read(scaled(tight, tmp_path / "half.json", 0.25)), now.content)
    assert half.network is not None
    assert half.network.ratio == pytest.approx(4)
    other = scaled(tight, tmp_path / "other.json", 1.0, cpu="another", cores=64)
    unlike = against(SavedReport.read(other), now.content).unlike
    assert [u.split(":")[0] for u in unlike] == ["cpu", "cores"]
    assert unlike[0].startswith("cpu: another then, ")


@pytest.mark.parametrize(("width", "whole"), [(60, False), (80, False), (300, True)])
def test_the_report_is_as_wide_as_the_terminal(
    width: int,
    whole: bool,
    saved: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Where there is room, a step takes one line."""
    monkeypatch.setenv("COLUMNS", str(width))
    given = ("--against", str(saved), "--requests", "2")
    assert main(["bench", MODEL, *QUICK, *given]) == 0
    rows = [row for row in capsys.readouterr().out.splitlines() if str(saved) not in row]
    assert max(map(len, rows)) <= width
    head = [row for row in rows if row.startswith("step ")]
    assert bool(head) == whole  # else every step is a card


def test_the_verb_saves_and_compares(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    document = json.loads(saved.read_text("utf-8"))
    assert document["schema"] == "irdeconv/bench/1"
    assert document["file"] == MODEL
    long = scaled(saved, tmp_path / "long.json", 1e6, cpu="Z80")
    short = scaled(saved, tmp_path / "short.json", 1e-6)
    both = ("--against", f"{long},{short}")
    text = answer("bench", MODEL, *QUICK, *both, "--histogram").out
    assert f"against {long} of " in text.replace("\n    ", " ")
    assert "faster" in text
    assert "slower" in text
    assert "not the same: cpu: Z80 then, " in text
    names = [line for line in text.splitlines() if str(tmp_path) not in line]
    assert max(map(len, names)) <= 80
    assert main(["bench", MODEL, *QUICK, "--against", str(long), "--fail-above", "5"]) == 0
    answer("bench", MODEL, *QUICK, "--against", short, "--fail-above", "5", code=1)
    document = answer("bench", MODEL, *QUICK, *both, "--requests", "2", "--format", "json").json
    assert [b["network"]["verdict"] for b in document["baselines"]] == ["faster", "slower"]
    assert document["parallel"]["requests"] == 2
    assert document["parallel"]["runs"] >= 2


@pytest.mark.parametrize(("args", "code", "text"), TABLES["refusals"])
def test_refusals(
    saved: Path, args: str, code: int, text: str, monkeypatch: pytest.MonkeyPatch,

) -> None:  # fmt: skip
    monkeypatch.chdir(saved.parent)
    Path("empty.json").write_text("")
    Path("other.json").write_text("[1]")
    old = json.loads(saved.read_text("utf-8"))
    del old["network"]["cpu"]["low"]
    Path("old.json").write_text(json.dumps(old))
    assert text in answer("bench", MODEL, "--time", "0", *args.split(), code=code).err
