"""Checkers: they read all peers of a world, belong to none, and say when a promise is broken.

One module per machine that is checked (`ring.py`, ...), registered by name in `registry.py`.
"""
