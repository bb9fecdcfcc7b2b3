"""Executing graphs: plans, schedules, pieces of graphs, benchmarks."""
