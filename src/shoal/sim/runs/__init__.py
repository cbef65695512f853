"""Runs: a scenario, read from a file, becomes a world with a workload and faults, and a verdict."""
