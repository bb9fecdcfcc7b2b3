"""Executing graphs: feeds, the plan, its schedule."""
