"""Rewrite rules, one file each: equivalent spellings become one, and nothing else changes.

Each module has `rewrite(term)`, for one node whose children are rewritten already. A rule must
keep the meaning for NULL, for NaN (which Spark orders above all numbers and equal to itself)
and, where an operand can throw, the order of evaluation.
"""
