"""What does one more query cost, where all share one Spark? Run `python -m benchmarks.sharing`."""
