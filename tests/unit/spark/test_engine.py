"""The engine's threads: one decides, a few work, and whoever asks gets an answer or an error."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest

from shoal.dataplane import commands as c
from shoal.dataplane.reports import Report
from shoal.kernel.errors import LocalError, UserError
from shoal.log.root import Root
from shoal.spark import engine as engine_module
from shoal.spark.engine import SparkEngine, wall_clock
from tests.unit.spark.small import EQUAL, Stream, row, spec

#: Longest wait for another thread; only a failing test waits so long.
LONG = 30.0


class FakeDesk:
    """A desk that hands out the work it was given, and remembers who came."""

    def __init__(self, *_: object, report: Callable[[Report], None], **__: object) -> None:
        self.report = report
        self.todo: list[Callable[[], Any]] = []
        self.done: list[Any] = []
        self.news: list[str] = []
        self.threads: dict[str, None] = {}
        self.due: int | None = None
        self.waiting: list[Future[Any]] = []
        self.closed = False

    def ask(self, command: Any, answer: "Future[Any]", now: int) -> None:
        self.threads[threading.current_thread().name] = None
        match command:
            case "wait":
                self.waiting.append(answer)
            case "bad":
                answer.set_exception(UserError("no"))
            case "break":
                raise OSError("the disk is gone")
            case _:
                answer.set_result({"echo": command, "now": now})

    def next_due(self, now: int) -> int | None:
        return self.due

    def next_work(self, now: int) -> Callable[[], Any] | None:
        self.threads[threading.current_thread().name] = None
        return self.todo.pop(0) if self.todo else None

    def finished(self, done: Any, now: int) -> None:
        self.threads[threading.current_thread().name] = None
        self.done.append(done)

    def announced(self, instance: str) -> None:
        self.news.append(instance)

    def view(self, now: int, *, threads: int) -> Any:
        return ("view", threads)

    def lagging(self, asked: int, now: int) -> Any:
        return ("lagging", asked)

    def abandon(self) -> None:
        for answer in self.waiting:
            answer.set_exception(LocalError("the engine has stopped"))

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkEngine]:
    monkeypatch.setattr(engine_module, "Desk", FakeDesk)
    engine = SparkEngine(
        cast("Any", None), cast("Any", None), owner="peer-1", clock=lambda: 7, workers=2
    )
    yield engine
    engine.close()


def desk_of(engine: SparkEngine) -> FakeDesk:
    return cast("FakeDesk", engine._desk)


def call(engine: SparkEngine, command: object) -> Any:
    return engine.call(cast("c.Command", command), timeout=LONG)


def test_a_command_is_answered_or_refused(made: SparkEngine) -> None:
    assert call(made, "hello") == {"echo": "hello", "now": 7}
    with pytest.raises(UserError, match="no"):
        call(made, "bad")
    assert call(made, "again")["echo"] == "again"


def test_an_answer_that_takes_too_long(made: SparkEngine) -> None:
    with pytest.raises(TimeoutError):
        made.call(cast("c.Command", "wait"), timeout=0.01)


def test_one_thread_decides(made: SparkEngine) -> None:
    """Whoever asks and whoever works: the desk is touched by the engine's thread alone."""
    desk = desk_of(made)
    names: list[str] = []
    desk.todo = [lambda: names.append(threading.current_thread().name)]
    seen = made.wait(-1, timeout=LONG)
    with ThreadPoolExecutor(4) as callers:
        list(callers.map(lambda n: call(made, n), range(20)))
    made.wait(seen, timeout=LONG)
    assert list(desk.threads) == ["shoal-engine"]
    assert [name.startswith("shoal-step") for name in names] == [True]


def test_work_is_handed_out_while_a_worker_is_free(made: SparkEngine) -> None:
    """Two at a time here, however much there is to do."""
    desk, lock = desk_of(made), threading.Lock()
    at_work, most = [0], [0]
    left: list[int] = []
    both = threading.Barrier(2)

    def work() -> str:
        with lock:
            at_work[0] += 1
            most[0] = max(most[0], at_work[0])
            left.append(len(desk.todo))
        both.wait(LONG)
        with lock:
            at_work[0] -= 1
        return "done"

    desk.todo = [work] * 6
    seen = 0
    while len(desk.done) < 6:
        before, seen = seen, made.wait(seen, timeout=LONG)
        assert seen > before, "nothing more is done"
    assert most[0] == 2
    assert min(left[:2]) == 4, "what waits is not decided yet"
    assert desk.done == ["done"] * 6


def test_an_announcement_reaches_the_desk(made: SparkEngine) -> None:
    made.announce("readings")
    call(made, "a command after it")
    assert desk_of(made).news == ["readings"]


def test_something_due_is_not_slept_over(
    made: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without any event: the thread sleeps no longer than until the next thing is due."""
    monkeypatch.setattr(engine_module, "SLEEP_MOST", LONG)
    call(made, "wake up, and sleep for long")
    desk = desk_of(made)
    desk.due = 7
    call(made, "look at the time")
    desk.todo = [lambda: "done"]
    assert made.wait(0, timeout=LONG / 2) >= 1
    desk.due = None


def test_reports_are_taken_once_in_order(made: SparkEngine) -> None:
    for number in (1, 2, 3):
        desk_of(made).report(cast("Report", number))
    assert list(map(int, cast("Any", made.reports()))) == [1, 2, 3]
    assert made.reports() == ()


def test_what_there_is_to_see(made: SparkEngine) -> None:
    view = cast("tuple[str, int]", made.view())
    assert view[0] == "view"
    assert view[1] >= 2
    assert cast("Any", made.lagging(5)) == ("lagging", 5)


def test_close_waits_for_the_work_and_starts_no_more(made: SparkEngine) -> None:
    desk = desk_of(made)
    begun, go = threading.Event(), threading.Event()

    def work() -> str:
        begun.set()
        go.wait(LONG)
        return "done"

    desk.todo = [work]
    call(made, "wake up")
    assert begun.wait(LONG)
    with ThreadPoolExecutor(1) as other:
        closing = other.submit(made.close)
        made._events.put("news")
        desk.todo = [lambda: "never"]
        go.set()
        closing.result(LONG)
    assert desk.done == ["done"]
    assert desk.closed
    made.close()


def test_after_the_end_nobody_waits(made: SparkEngine) -> None:
    """Every question has an answer, though it be that there is none."""
    with ThreadPoolExecutor(1) as other:
        asked = other.submit(call, made, "wait")
        while not desk_of(made).waiting:
            call(made, "has it come?")
        made.close()
        with pytest.raises(LocalError, match="has stopped"):
            asked.result(LONG)
        for question in (
            lambda: call(made, "hello"),
            lambda: made.view(),
            lambda: made.lagging(0),
        ):
            late: Future[Any] = other.submit(question)
            with pytest.raises(LocalError, match="has stopped"):
                late.result(LONG)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_engine_that_broke_says_why(made: SparkEngine) -> None:
    """To whoever was waiting, whoever broke it, whoever came with them, and whoever comes later."""
    with ThreadPoolExecutor(1) as other:
        waiting = other.submit(call, made, "wait")
        while not desk_of(made).waiting:
            call(made, "has it come?")
        together = [_asked("break"), _asked("after")]
        made._next_events = lambda: list(together)  # type: ignore[method-assign]
        made.announce("wake up")
        for answer in (waiting, *(asked.answer for asked in together)):
            with pytest.raises(LocalError, match="has stopped"):
                answer.result(LONG)
    with pytest.raises(LocalError) as refused:
        call(made, "hello")
    assert "the disk is gone" in refused.value.detail


def _asked(command: object) -> engine_module._Asked:
    return engine_module._Asked(cast("c.Command", command), Future())


def test_the_clock_is_the_machine_s_in_microseconds() -> None:
    assert wall_clock() > 1_700_000_000_000_000


@pytest.mark.slow
def test_a_real_desk(root: Path) -> None:
    """Commands and steps without data, through the threads; none is left behind."""
    stream = Stream(Root.open(root))
    engine = SparkEngine(cast("Any", None), stream.root, owner="peer-1")
    try:
        engine.call(c.Start(component=spec(EQUAL), weight=1.0), timeout=LONG)
        rows = (row("a", 7),)
        added = c.AddRows(instance=spec(EQUAL).instance, rows=rows, begin=None)
        assert engine.call(added, timeout=LONG)["roster"] == 2
        with pytest.raises(LocalError, match="in the roster"):
            engine.call(added, timeout=LONG)
        (view,) = engine.view().components
        assert (view.roster_rows, view.lag) == (1, 0)
        assert engine.lagging(wall_clock()) is None
    finally:
        engine.close()
