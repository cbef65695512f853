"""One owner in a process of its own, told what to do by lines of JSON.

    {"do": "take"}                                take the instance over
    {"do": "commit", "steps": 3, "parts": 2}      commit steps, with housekeeping after each
    {"do": "race", "rounds": 5}                   take over and commit until fenced, again and again
    "stop_at": "appending"                        with any of them: stop itself there (SIGSTOP)
    "die_at": "appended"                          or die there (SIGKILL); "skip": 2 passes first
    "die_after_us": 3000                          not there, but so much later, wherever it is then
    "die_writing": 200                            as it writes this byte of the next file

Each order is answered with one line: {"outcome": "ok" | "fenced" | "error", ...}. Acknowledged
steps are appended to a file of the process, before the answer, as `epoch step attempt`.
"""

import json
import os
import random
import resource
import signal
import sys
from pathlib import Path
from typing import Any

from shoal.kernel.errors import Fenced, LocalError, ShoalError
from shoal.log.root import Root
from shoal.log.writer import Writer
from tests.races.steps import EAGER, INSTANCE, commit_step


class Owner:
    """The owner and the point at which it is to stop or die."""

    def __init__(self, root: Root, *, seed: int, diary: Path) -> None:
        self.root = root
        self.rng = random.Random(seed)
        self.name = f"owner-{os.getpid()}"
        self.writer: Writer | None = None
        self.stale: Writer | None = None
        self.fenced = 0
        self._armed: tuple[str, int] | None = None
        self._skip = 0
        self._die_after_us = 0
        self._die_writing: int | None = None
        self._diary = os.open(diary, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def obey(self, order: dict[str, Any]) -> dict[str, Any]:
        """Carry out one order."""
        self._arm(order)
        try:
            getattr(self, f"_{order['do']}")(order)
            outcome = {"outcome": "ok"}
        except Fenced as error:
            outcome = {"outcome": "fenced", "detail": str(error)}
        except ShoalError as error:
            outcome = {"outcome": "error", "detail": str(error)}
        mark = (0, 0) if self.writer is None else (self.writer.epoch, self.writer.step)
        return {**outcome, "epoch": mark[0], "step": mark[1], "fenced": self.fenced}

    def trace(self, point: str) -> None:
        """Stop or die if this is the point."""
        if self._armed is None or self._armed[0] != point:
            return
        if self._skip > 0:
            self._skip -= 1
            return
        signal_number, self._armed = self._armed[1], None
        # The kernel ends the process, also in the midst of the library's code, which has no point
        # of ours. Nothing of the process runs after it.
        if self._die_after_us:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, self._die_after_us / 1e6)
        elif self._die_writing is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_FSIZE, (self._die_writing, self._die_writing))
        else:
            os.kill(os.getpid(), signal_number)

    def wait_for_the_end(self) -> None:
        """Whoever was to die later does so before it answers."""
        while self._die_after_us and self._armed is None:
            signal.pause()

    def _arm(self, order: dict[str, Any]) -> None:
        self._armed = None
        self._skip = int(order.get("skip", 0))
        self._die_after_us = int(order.get("die_after_us", 0))
        self._die_writing = order.get("die_writing")
        for key, signal_number in (("stop_at", signal.SIGSTOP), ("die_at", signal.SIGKILL)):
            if key in order:
                self._armed = (order[key], signal_number)

    def _take(self, order: dict[str, Any]) -> None:
        self.writer = Writer.take_over(
            self.root, INSTANCE, owner=self.name, upkeep=EAGER, trace=self.trace
        )

    def _commit(self, order: dict[str, Any]) -> None:
        assert self.writer is not None
        for _ in range(order["steps"]):
            self._step(self.writer, parts=order.get("parts", self.rng.randrange(4)))
            self.writer.housekeep(horizon=None)

    def _repeat(self, order: dict[str, Any]) -> None:
        """Commit the last step again: our own contract refuses it."""
        assert self.writer is not None
        try:
            self.writer.commit(step=self.writer.step, segments=[], transactions={})
        except LocalError:
            return
        raise AssertionError("a repeated step was accepted")

    def _race(self, order: dict[str, Any]) -> None:
        for _ in range(order["rounds"]):
            try:
                self._take(order)
                self._commit({"steps": self.rng.randrange(1, 6)})
            except Fenced:
                self.fenced += 1

    def _step(self, writer: Writer, *, parts: int) -> None:
        commit, attempt = commit_step(writer, parts=parts, rng=self.rng, trace=self.trace)
        os.write(self._diary, f"{commit.epoch} {commit.step} {attempt}\n".encode())


def main() -> None:
    """Obey until the input ends."""
    root, seed, diary = sys.argv[1:]
    owner = Owner(Root.open(root), seed=int(seed), diary=Path(diary))
    sys.stdout.write('{"outcome": "ready"}\n')
    sys.stdout.flush()
    for line in sys.stdin:
        answer = owner.obey(json.loads(line))
        owner.wait_for_the_end()
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
