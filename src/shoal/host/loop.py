"""The loop of a host: one event after the other into the peer, its effects out in their order.

    sockets ─┐                                   ┌─▶ transport   Send
    timers ──┼─▶ inbox ─▶ Peer.handle ─▶ effects ┼─▶ timers      SetTimer, CancelTimer
    questions┘                                   ├─▶ futures     Answer
                                                 └─▶ store       Persist; the rest waits for it

While something is being stored no event is handled, so what others hear is never ahead of what the
store holds. A store that fails, or a defect of ours, ends the host: half a peer helps nobody.

Promises   H5  the order of effects (`kernel/effects.py`): nothing behind a write begins before it
           is durable. `now` never goes back; every question is answered, with an error at worst. No
           message is handled that has waited here while the host stood still for long (`AWAY`).
Not here   what a peer decides (peer/, control/); the data plane, whose commands go to `commands`:
           a host without an engine refuses them.
"""

import asyncio
import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from msgspec import Struct

from shoal.host.clock import LOOK_S, Clock
from shoal.host.config import HostConfig
from shoal.host.disk.identity import OWN, of_machines
from shoal.host.disk.store import Change, Store
from shoal.host.inbox import Inbox
from shoal.host.keys.trust import Trust
from shoal.host.logs import Log
from shoal.host.net.transport import Transport
from shoal.host.tasks import vital
from shoal.host.timers import Timers
from shoal.kernel.effects import Answer, CancelTimer, Command, Effect, Persist, Send, SetTimer
from shoal.kernel.errors import LocalError, ShoalError, UserError
from shoal.kernel.events import AWAY, Asked, Event, Started, Stopping, TimerFired
from shoal.kernel.time import SECOND
from shoal.peer.peer import Peer
from shoal.wire.codec import Codec

__all__ = ["Host", "no_engine"]


def no_engine(command: object) -> None:
    """A command for the data plane of a host that has none."""
    raise LocalError(
        f"command {type(command).__name__} has no engine",
        hint="this host runs without Spark; nothing may place components on it",
    )


class Host:
    """One peer on this machine, from `run` to `stop`."""

    def __init__(
        self,
        *,
        peer: Peer,
        codec: Codec,
        store: Store,
        transport: Transport,
        inbox: Inbox,
        trust: Trust | None,
        clock: Clock,
        config: HostConfig,
        log: Log,
        commands: Callable[[object], None] = no_engine,
    ) -> None:
        self.peer = peer
        self.transport = transport
        self.clock = clock
        self.log = log
        self.stopping = False
        self._codec = codec
        self._store = store
        self._inbox = inbox
        self.trust = trust
        self.config = config
        self._commands = commands
        self._timers = Timers()
        self._told = 0
        self._timers_turn = False
        self._looked = clock.now()
        self._error: BaseException | None = None
        self._requests = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Struct]] = {}
        self._to_learn: bytes | None = None
        self._loop = asyncio.get_running_loop()
        self._disk = ThreadPoolExecutor(1, thread_name_prefix="store")
        self._wake: asyncio.TimerHandle | None = None
        self._refresher: asyncio.Task[None] | None = None
        transport.on_revocations = self._learn_soon

    async def run(self) -> None:
        """Run the peer until it is stopped, or until something breaks."""
        try:
            if self.trust is not None:
                self._refresher = vital(self._refresh_for_ever(), "refresher", self.broke)
            await self._handle(Started(of_machines(self._store.values)))
            self.transport.begin(self.peer.me, self.broke)
            while not self.stopping:
                await self._turn()
            self.log.info("stopping", waiting=self._inbox.waiting)
            if self._error is not None:
                raise self._error
            await self._handle(Stopping())
        finally:
            await self._end()

    @property
    def mesh(self) -> str | None:
        """The identity of the mesh; None without keys."""
        return None if self.trust is None else self.trust.mesh

    @property
    def waiting(self) -> int:
        """Events that wait for the peer."""
        return self._inbox.waiting

    def stop(self) -> None:
        """Say good-bye and end."""
        self.stopping = True
        self._inbox.ready.set()

    async def ask(self, question: Struct) -> Struct:
        """Ask the peer; its answer, or the error it gives."""
        if self.stopping:
            raise UserError("host is stopping", hint="ask another one")
        request = next(self._requests)
        future = self._answers[request] = self._loop.create_future()
        self._inbox.put(Asked(request, question))
        try:
            async with asyncio.timeout(self.config.answer_s):
                answer: Struct = await future
                return answer
        except TimeoutError:
            raise UserError(
                f"question {type(question).__name__} was not answered in time",
                detail=f"waited {self.config.answer_s:.0f} s",
                hint="the mesh may be cut in two; see `shoal peers`",
            ) from None
        finally:
            self._answers.pop(request, None)

    # --- the loop -------------------------------------------------------------------------------

    async def _turn(self) -> None:
        """Handle what is due and what waits; then let the sockets have their turn."""
        handled = 0
        while handled < self.config.turn_events_max and not self.stopping:
            event = self._next()
            if event is None:
                break
            handled += 1
            await self._handle(event)
        if self._to_learn is not None:
            await self._learn()
        if handled or self._inbox.waiting:
            await asyncio.sleep(0)
        else:
            await self._wait()

    def _next(self) -> Event | None:
        """In turns, a timer that is due and what waits in the inbox: neither starves the other."""
        now = self.clock.now()
        if now - self._looked > AWAY:
            self._was_away(now - self._looked)
        self._looked = now
        self._timers_turn = not self._timers_turn
        event = None if self._timers_turn else self._inbox.take()
        if event is not None:
            return event
        timer = self._timers.due(now)
        return TimerFired(timer) if timer is not None else self._inbox.take()

    def _was_away(self, span: int) -> None:
        """This host stood still: it was stopped or suspended, or its disk took that long.

        What waits in the inbox, in connections and to be sent is from before. Others have given
        those connections up by now.
        """
        dropped = self._inbox.drop_messages()
        self.transport.cut("this host stood still")
        self.log.warn("stood still", seconds=span // SECOND, messages_dropped=dropped)

    async def _wait(self) -> None:
        """Sleep until something comes or the next timer may be due; the next turn looks."""
        ready = self._inbox.ready
        ready.clear()
        if self._inbox.waiting or self.stopping or self._to_learn is not None:
            return
        at = self._timers.next()
        wait_s = LOOK_S if at is None else self.clock.wait_s(at)
        self._wake = self._loop.call_later(wait_s, ready.set)
        await ready.wait()
        self._wake.cancel()
        self._wake = None

    async def _handle(self, event: Event) -> None:
        effects = self.peer.handle(event, self.clock.now())
        position = 0
        while position < len(effects):
            if isinstance(effects[position], Persist):
                position = await self._persist(effects, position)
            else:
                self._carry_out(effects[position])
                position += 1
        if self.peer.story.told != self._told:
            self._tell()

    async def _persist(self, effects: Sequence[Effect], position: int) -> int:
        """Store neighbouring values in one go; where the other effects go on."""
        changes: list[Change] = []
        for effect in effects[position:]:
            if not isinstance(effect, Persist):
                break
            if effect.key.startswith(OWN):
                raise LocalError(f"key {effect.key!r} is the host's own")
            changes.append((effect.key, effect.value))
        await self._write(changes)
        return position + len(changes)

    async def _write(self, changes: Sequence[Change]) -> None:
        await self._loop.run_in_executor(self._disk, self._store.write, changes)

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Send(to=to, message=message):
                self.transport.send(to, self._codec.encode(message, self.peer.event))
            case SetTimer(timer=timer, at=at):
                self._timers.set(timer, at)
            case CancelTimer(timer=timer):
                self._timers.cancel(timer)
            case Answer(request=request, result=result):
                self._answer(request, result)
            case Command(command=command):
                self._commands(command)
            case _:
                raise LocalError(f"effect {type(effect).__name__} is not for a host")

    def _answer(self, request: int, result: Struct | ShoalError) -> None:
        future = self._answers.pop(request, None)
        if future is None or future.done():
            return  # whoever asked has gone
        if isinstance(result, ShoalError):
            future.set_exception(result)
        else:
            future.set_result(result)

    def _tell(self) -> None:
        """Log what the peer has written into its story."""
        lines = list(self.peer.story)
        for line in lines[max(0, len(lines) - (self.peer.story.told - self._told)) :]:
            self.log.info(line.what, thing=line.thing, because=line.because, cause=line.event)
        self._told = self.peer.story.told

    # --- keys -----------------------------------------------------------------------------------

    async def _refresh_for_ever(self) -> None:
        """Look at the files of keys and revocations now and then."""
        assert self.trust is not None
        while True:
            contexts = self.trust.dialling
            found = self.trust.refresh()
            if self.trust.complaint:
                self.log.warn("keys cannot be used", why=self.trust.complaint)
            if self.trust.dialling is not contexts:
                self.transport.renewed()
                self.log.info("key renewed", days=self.trust.days_left())
            if found is not None:
                self._learn_soon(found)
            for name in self.peer.standing.ignored(self.clock.now()):
                self.transport.ban(name)
            await asyncio.sleep(self.config.keys_refresh_s)

    def _learn_soon(self, data: bytes) -> None:
        """Believe a list of revocations as soon as it is stored; that is the loop's to do."""
        if self.trust is not None and self.trust.newer(data):
            self._to_learn = data
            self._inbox.ready.set()

    async def _learn(self) -> None:
        data, self._to_learn = self._to_learn, None
        if data is None or self.trust is None:
            return
        await self._write([(f"{OWN}revocations", data)])
        self.trust.learn(data)
        self.transport.learned()
        self.log.info("revocations learned", number=self.trust.number)

    def broke(self, error: BaseException) -> None:
        """Something that the host cannot live without has ended by this error."""
        self._error = error
        self.stop()

    # --- the end --------------------------------------------------------------------------------

    async def _end(self) -> None:
        """Let go of everything, in the order in which it was depended on."""
        self.stopping = True
        if self._refresher is not None:
            self._refresher.cancel()
            await asyncio.gather(self._refresher, return_exceptions=True)
        for future in self._answers.values():
            if not future.done():
                future.set_exception(UserError("host has ended", hint="ask another one"))
        await self.transport.stop(self.config.drain_s)
        await self._loop.run_in_executor(self._disk, self._store.close)
        self._disk.shutdown()
