"""How soon does a new query count, where others run? Run `python -m benchmarks.install`."""
