"""SELECT text to a flat query. With `sql.py` and `sql_*.py`, the only place that knows sqlglot."""
