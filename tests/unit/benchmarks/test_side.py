"""A side answers, fails in words, and is measured with everything it started."""

import pytest

from benchmarks.measure import tree_usage
from benchmarks.side import Side, SideFailed

_MODULE = '''
import hashlib, os, subprocess, sys
from benchmarks.side import serve

BURN = "import hashlib\\nfor _ in range({n}): hashlib.sha256(bytes(1 << 20)).digest()"

def burn(n, detached):
    """A child that computes; detached: a grandchild whose parent ends before it."""
    code = BURN.format(n=n)
    if detached:
        code = (
            "import subprocess, sys;"
            f"subprocess.Popen([sys.executable, '-c', {code!r}], stdin=subprocess.DEVNULL)"
        )
    subprocess.run([sys.executable, "-c", code], check=True)
    if detached:
        os.waitpid(-1, 0)

def own(n):
    for _ in range(n):
        hashlib.sha256(bytes(1 << 20)).digest()

def fail():
    print("this goes to the log")
    raise ValueError("no such thing")

def die():
    os._exit(3)

functions = {"burn": burn, "own": own, "fail": fail, "die": die, "echo": lambda value: value}
serve(functions, at_end=lambda: None)
'''


@pytest.fixture
def side(tmp_path, monkeypatch):
    (tmp_path / "example_side.py").write_text(_MODULE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with Side("example_side", log=tmp_path / "log") as started:
        yield started


@pytest.mark.slow
def test_a_side_answers_and_fails_in_words(side: Side, tmp_path) -> None:
    assert side.call("echo", value=[1, "two"]) == [1, "two"]
    with pytest.raises(SideFailed, match="no such thing"):
        side.call("fail")
    assert side.call("echo", value=3) == 3
    assert "this goes to the log" in (tmp_path / "log").read_text()


@pytest.mark.slow
def test_a_side_that_dies_says_so(side: Side) -> None:
    with pytest.raises(SideFailed, match="died in die"):
        side.call("die")


@pytest.mark.slow
@pytest.mark.parametrize("detached", [False, True])
def test_the_cpu_of_ended_children_counts(side: Side, detached: bool) -> None:
    # The same work twice, once in a child: a reading that loses the child is near zero.
    with side.window() as own:
        side.call("own", n=200)
    with side.window() as ended:
        side.call("burn", n=200, detached=detached)
    assert own.cpu_seconds > 0
    assert ended.cpu_seconds > own.cpu_seconds / 4
    assert tree_usage(side.pid).processes == 1


@pytest.mark.slow
def test_a_window_is_only_its_own_time(side: Side) -> None:
    side.call("own", n=200)
    with side.window() as idle:
        side.call("echo", value=1)
    with side.window() as busy:
        side.call("own", n=200)
    assert idle.cpu_seconds < busy.cpu_seconds
    assert busy.resident_bytes_peak > 0
    assert busy.threads >= 1
