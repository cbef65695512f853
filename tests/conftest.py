"""What every test may use: one Spark session, a root, golden files, and a check for leaks.

spark     one session for the whole run, `local[2]`, UTC, no UI; marks its test `spark`
root      an empty folder for one test, mode 0700
golden    compare a text with a file under tests/golden; `--update` rewrites the file
no_leaks  threads must be gone when the test ends (always on); `descriptors_flat` by request

Hypothesis draws the same examples in every run. HYPOTHESIS_PROFILE=explore draws new ones.
"""

import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

GOLDEN = Path(__file__).parent / "golden"
#: How long a thread that a test has stopped may take to be gone.
THREADS_GONE_S = 5.0

settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("explore", deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--update`."""
    parser.addoption("--update", action="store_true", help="rewrite golden files; read the diff")


def pytest_configure(config: pytest.Config) -> None:
    """Let helpers that run outside fixtures see `--update` too."""
    if config.getoption("--update"):
        os.environ["SHOAL_UPDATE"] = "1"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever asks for the session is a Spark test; folders give the other marks."""
    here = Path(__file__).parent
    for item in items:
        folder = item.path.relative_to(here).parts[0] if here in item.path.parents else ""
        if "spark" in getattr(item, "fixturenames", ()) or folder == "spark":
            item.add_marker("spark")
        if folder in ("races", "system"):
            item.add_marker(folder)


@pytest.fixture
def update(request: pytest.FixtureRequest) -> bool:
    """True when golden files are to be rewritten."""
    return bool(os.environ.get("SHOAL_UPDATE")) or bool(request.config.getoption("--update"))


@pytest.fixture
def golden(update: bool) -> Callable[[str, str], None]:
    """Compare a text with tests/golden/<name>."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        assert path.exists(), f"golden file {name} is missing; `make update` writes it"
        assert text == path.read_text(encoding="utf-8"), f"{name}: see `make update`"

    return compare


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An empty folder that can serve as the root of a mesh."""
    path = tmp_path / "root"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """The one session that all tests share; it keeps no state between them but its settings."""
    session = _build_session(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


def _build_session(folder: Path) -> "SparkSession":
    from shoal.spark.session import build

    settings_of_tests = {
        "spark.driver.memory": "2g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
        "spark.ui.enabled": "false",
    }
    return build("local[2]", settings_of_tests)


@pytest.fixture(autouse=True)
def no_leaks(request: pytest.FixtureRequest) -> Iterator[None]:
    """No test leaves a thread behind. Py4J's own threads live as long as the session."""
    if "spark" in request.fixturenames:
        request.getfixturevalue("spark")
    before = dict.fromkeys(threading.enumerate())
    yield
    deadline = time.monotonic() + THREADS_GONE_S
    while _left_behind(before) and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.01)
    names = [thread.name for thread in _left_behind(before)]
    assert not names, f"threads left behind: {names}; stop and join what the test started"


def _left_behind(before: dict[threading.Thread, None]) -> list[threading.Thread]:
    return [
        thread
        for thread in threading.enumerate()
        if thread not in before and type(thread).__module__.partition(".")[0] != "py4j"
    ]


@pytest.fixture
def descriptors_flat() -> Iterator[None]:
    """The test ends with no more open descriptors than it began with (where /proc shows them)."""
    folder = Path("/proc/self/fd")
    if not folder.exists():
        pytest.skip("open descriptors can be counted only where /proc is")
    gc.collect()
    before = len(list(folder.iterdir()))
    yield
    gc.collect()
    after = len(list(folder.iterdir()))
    assert after <= before, f"{after - before} descriptors left open"
