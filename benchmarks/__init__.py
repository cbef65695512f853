"""Benchmarks: each asks one question, in ratios, beside plain Spark. See README.md."""
