"""Checkers: they read all peers of a world, belong to none, and say when a promise is broken.

One module for each machine that is checked; `runs/cast.py` says which watch a scenario.
"""
