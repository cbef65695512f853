"""The engine: one thread decides, a few workers run steps on Spark.

    callers ──command──▶ ┌───────────────┐ ──work──▶ workers (Spark jobs, commits)
    workers ──outcome──▶ │ engine thread │
    others  ─announce──▶ └───────────────┘ ──report──▶ whoever asks

Everything that threads tell each other goes through the one queue; components belong to the
engine's thread, and a component has at most one step in flight. The number of threads and of
Spark tasks depends on the workers, never on how many queries there are.

Promises   L1 L2 L3 (through the writers it owns), Q1 Q2 Q3 (select/), S3 (counters).
Not here   whose turn it is (dataplane/scheduler.py), what a step does (ingest/, select/, deliver/).
"""

import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from pyspark.sql import SparkSession

from shoal.dataplane import commands as c
from shoal.dataplane.contract import Answer
from shoal.dataplane.reports import ComponentView, EngineView, Report
from shoal.kernel.errors import LocalError
from shoal.kernel.time import Instant
from shoal.log.root import Root
from shoal.spark.desk import Desk

__all__ = ["REPORTS_MAX", "WORKERS", "SparkEngine", "wall_clock"]

#: Steps that run at the same time. One fills the gaps of the other: planning is Python, a job is
#: the JVM. More only wait for the same cores.
WORKERS = 2
#: Reports kept for whoever asks; older ones are dropped and counted.
REPORTS_MAX = 20_000
#: Longest sleep of the engine's thread, in seconds: other peers' commits are noticed within it.
SLEEP_MOST = 0.05


def wall_clock() -> Instant:
    """Microseconds of the machine's clock."""
    return time.time_ns() // 1000


@dataclass(slots=True)
class _Asked:
    command: c.Command
    answer: "Future[Answer]"


@dataclass(slots=True)
class _Look:
    answer: "Future[EngineView]"


@dataclass(slots=True)
class _LookForLag:
    asked: Instant
    answer: "Future[ComponentView | None]"


class SparkEngine:
    """Runs components on one Spark session. See dataplane/contract.py for what it promises."""

    def __init__(
        self,
        session: SparkSession,
        root: Root,
        *,
        owner: str,
        clock: Callable[[], Instant] = wall_clock,
        workers: int = WORKERS,
    ) -> None:
        self._events: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._clock = clock
        self._workers = ThreadPoolExecutor(workers, thread_name_prefix="shoal-step")
        self._commits = ThreadPoolExecutor(2 * workers, thread_name_prefix="shoal-commit")
        self._size = self._free = workers
        self._reports: deque[Report] = deque(maxlen=REPORTS_MAX)
        self._desk = Desk(
            session, root, owner=owner, commits=self._commits, report=self._reports.append
        )
        self._broken: BaseException | None = None
        #: Set before the queue is emptied for the last time: whoever asks later empties it.
        self._ended = False
        self._turns = 0
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="shoal-engine", daemon=True)
        self._thread.start()

    def call(self, command: c.Command, *, timeout: float) -> Answer:
        """Carry out one command; durable when it returns."""
        asked = _Asked(command, Future())
        self._put(asked)
        return asked.answer.result(timeout)

    def announce(self, instance: str) -> None:
        """Something may have been added to what this component reads."""
        self._events.put(instance)

    def reports(self) -> tuple[Report, ...]:
        """What happened since the last call, oldest first."""
        taken = []
        while self._reports:
            taken.append(self._reports.popleft())
        return tuple(taken)

    def view(self) -> EngineView:
        """The engine's state after the event it is dealing with."""
        look = _Look(Future())
        self._put(look)
        return look.answer.result()

    def lagging(self, asked: Instant) -> ComponentView | None:
        """A component that has not yet answered all that was there at this instant."""
        look = _LookForLag(asked, Future())
        self._put(look)
        return look.answer.result()

    def wait(self, seen: int, *, timeout: float) -> int:
        """Return how many turns have ended, once it is more than `seen` or the time is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._turns > seen, timeout)
            return self._turns

    def close(self) -> None:
        """End after the steps that are running."""
        self._events.put(None)
        self._thread.join()
        self._workers.shutdown(wait=True)
        self._commits.shutdown(wait=True)
        self._desk.close()

    def _put(self, question: "_Asked | _Look | _LookForLag") -> None:
        """Ask the engine's thread; if it has ended meanwhile, nobody else would answer."""
        self._events.put(question)
        if self._ended:
            self._refuse_the_rest()

    def _run(self) -> None:
        stopping = False
        events: list[object] = []
        try:
            while not (stopping and self._free == self._size):
                events = self._next_events()
                for event in events:
                    stopping = self._handle(event) or stopping
                if not stopping:
                    self._dispatch()
        except BaseException as error:
            self._broken = error
            raise
        finally:
            self._ended = True
            self._desk.abandon()
            for event in events:
                self._refuse(event)
            self._refuse_the_rest()

    def _next_events(self) -> list[object]:
        """Everything in the queue; waits for the first, but not past the next thing due."""
        now = self._clock()
        due = self._desk.next_due(now) if self._free else None
        wait = SLEEP_MOST if due is None else min(SLEEP_MOST, max(0.0, (due - now) / 1e6))
        events: list[object] = []
        try:
            events.append(self._events.get(timeout=wait) if wait else self._events.get_nowait())
            while True:
                events.append(self._events.get_nowait())
        except queue.Empty:
            return events

    def _handle(self, event: object) -> bool:
        """Deal with one event; says whether it asked to stop."""
        now = self._clock()
        match event:
            case None:
                return True
            case str():
                self._desk.announced(event)
            case _Asked():
                self._desk.ask(event.command, event.answer, now)
            case _Look():
                event.answer.set_result(self._desk.view(now, threads=threading.active_count()))
            case _LookForLag():
                event.answer.set_result(self._desk.lagging(event.asked, now))
            case Future():
                self._free += 1
                self._desk.finished(event.result(), now)
                with self._changed:
                    self._turns += 1
                    self._changed.notify_all()
            case _:
                raise LocalError(f"event {event!r} is not known to the engine")
        return False

    def _dispatch(self) -> None:
        while self._free:
            work = self._desk.next_work(self._clock())
            if work is None:
                return
            self._free -= 1
            self._workers.submit(work).add_done_callback(self._events.put)

    def _refuse_the_rest(self) -> None:
        while True:
            try:
                self._refuse(self._events.get_nowait())
            except queue.Empty:
                return

    def _refuse(self, event: object) -> None:
        """Tell whoever asked, unless there is an answer already."""
        if isinstance(event, _Asked | _Look | _LookForLag) and not event.answer.done():
            why = repr(self._broken) if self._broken else "closed"
            event.answer.set_exception(LocalError("the engine has stopped", detail=why))
