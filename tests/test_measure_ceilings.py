"""tools/measure_ceilings.py: what it counts, and its table, on made-up times."""

from __future__ import annotations

from itertools import count

import pytest

from irdeconv.kernels.candidate import ConvProblem
from irdeconv.run.machine import Ceilings
from irdeconv.run.measure import Clock, Effort
from support.scripts import script

tool = script("measure_ceilings")


def layer(deconvolution: bool) -> ConvProblem:
    """3x5 of stride 2x1 in two groups, 2 images of 6 channels; 10 outputs."""
    return ConvProblem(
        shape=(2, 6, 7, 11),
        outputs=10,
        groups=2,
        kernel=(3, 5),
        strides=(2, 1),
        dilations=(1, 1),
        begin=(0, 0),
        sizes=(15, 15) if deconvolution else (3, 7),
    )


def test_products_are_those_of_the_definition() -> None:
    """Every input meets every tap of its group's 5 outputs; every output all taps of 3 inputs."""
    assert tool.macs(layer(True), True) == 2 * 6 * 7 * 11 * 5 * 15
    assert tool.macs(layer(False), False) == 2 * 10 * 3 * 7 * 3 * 15


def test_each_byte_is_moved_once() -> None:
    weights = 2 * 3 * 5 * 15
    assert tool.moved(layer(True)) == 4 * (2 * 6 * 7 * 11 + weights + 2 * 10 * 15 * 15)


def test_what_is_reached_is_a_part_of_the_machine_s() -> None:
    task = tool.compare_picks.Task.of("made up", layer(True), True)
    ticks = count()
    clock = Clock(wall=lambda: 1.0, cpu=lambda: next(ticks) * 1e-3)
    ceilings = Ceilings(gemm=2.0, gemm_all=2.0, copy=0.5, cores=1)
    one = tool.reached(task, ceilings, Effort(rounds=1, time=0.0), clock)
    assert one.products == pytest.approx(2 * tool.macs(layer(True), True) / 1e-3 / 1e9 / 2.0)
    assert one.copying == pytest.approx(tool.moved(layer(True)) / 1e-3 / 1e9 / 0.5)


def test_a_kernel_has_one_row_with_its_median_and_range() -> None:
    some = [tool.Reached("a", p, p / 10) for p in (0.2, 0.9, 0.4)] + [tool.Reached("b", 1.5, 0.1)]
    assert list(tool.rows(some)) == [
        ("a", "3", "40%", "20% to 90%", "4%", "2% to 9%"),
        ("b", "1", "150%", "150% to 150%", "10%", "10% to 10%"),
    ]


def test_the_table_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    ticks = count()
    clock = Clock(wall=lambda: next(ticks) * 1e-3, cpu=lambda: next(ticks) * 1e-3)
    args = ["--count", "1", "--seed", "1", "--only", "hed_side3", "--rounds", "1", "--seconds", "0"]
    assert tool.main(args, clock) == 0
    out = capsys.readouterr().out
    assert "seed 1" in out
    assert "deconvolution" in out
