"""The session: settings that results depend on cannot be wrong; what Spark refuses is said."""

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from shoal.kernel.errors import UserError
from shoal.spark import session as module
from shoal.spark.session import REQUIRED, build, check, running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Settings:
    """A session that somebody brought: all that `check` looks at."""

    def __init__(self, **settings: str) -> None:
        self.conf = self
        self._settings = REQUIRED | settings

    def get(self, key: str, default: str) -> str:
        return self._settings.get(key, default)


def test_a_session_that_would_give_other_results_is_refused() -> None:
    check(cast("Any", Settings()))
    check(cast("Any", Settings(**{"spark.sql.ansi.enabled": "TRUE"})))
    for key in REQUIRED:
        with pytest.raises(UserError, match=f"{key} = Mars") as refused:
            check(cast("Any", Settings(**{key: "Mars"})))
        assert REQUIRED[key] in refused.value.detail
        assert key in refused.value.hint


def test_settings_of_ours_are_not_required_twice() -> None:
    """What a caller may change is in one list, what nobody may in the other."""
    assert not [key for key in module._TUNED if key in REQUIRED]


def test_the_installation_may_lie_in_a_folder_with_spaces(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What Java is told is one option, whatever the path."""
    told: dict[str, str] = {}

    class Builder:
        def __getattr__(self, name: str) -> Any:
            return lambda *_: self

        def config(self, key: str, value: str) -> "Builder":
            told[key] = value
            return self

        def getOrCreate(self) -> Any:
            raise RuntimeError("no Java")

    place = tmp_path / "my programs"
    monkeypatch.setattr(module, "__file__", str(place / "session.py"))
    monkeypatch.setattr(module.SparkSession, "builder", Builder())
    with pytest.raises(UserError, match="could not be started"):
        build("local[1]", {})
    quiet = told["spark.driver.extraJavaOptions"]
    assert quiet == f'-Dlog4j2.configurationFile="{place / "log4j2.properties"}"'


@pytest.mark.slow
def test_the_session_of_this_process(spark: "SparkSession") -> None:
    """Ours go under the caller's; the required over both."""
    check(spark)
    assert spark.conf.get("spark.sql.files.maxPartitionBytes") == str(1 << 40)
    assert spark.conf.get("spark.driver.memory") == "2g"
    before = spark.conf.get("spark.sql.shuffle.partitions")
    try:
        wanted = {"spark.sql.shuffle.partitions": "3", "spark.sql.ansi.enabled": "false"}
        again = build("local[2]", wanted)
        assert again.conf.get("spark.sql.shuffle.partitions") == "3"
        assert again.conf.get("spark.sql.ansi.enabled") == "true"
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", cast("str", before))
    assert running() is not None


@pytest.mark.slow
def test_no_java_is_said_in_a_few_words() -> None:
    """Not in a stack trace, and with the way out."""
    code = (
        "from shoal.spark.session import build\n"
        "from shoal.kernel.errors import UserError\n"
        "try:\n"
        "    build('local[1]', {})\n"
        "except UserError as error:\n"
        "    print('said:', error, error.hint)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "JAVA_HOME": "/nowhere", "PYTHONPATH": "src"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "said: Spark could not be started" in done.stdout, done.stderr
    assert "JAVA_HOME" in done.stdout
