"""The front door: every name leads somewhere, and opening it costs no Spark."""

import subprocess
import sys

import pytest

import shoal


def test_every_name_is_what_it_says() -> None:
    for name in shoal.__all__:
        assert getattr(shoal, name).__name__ == name


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="'conect'"):
        shoal.conect  # noqa: B018


def test_to_import_it_loads_neither_spark_nor_storage() -> None:
    code = "import sys, shoal; print([n for n in ('pyspark', 'deltalake') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
