"""One run: a scenario and a seed become a world, a workload, a storm, and a verdict.

    form ──▶ faults (safety: nothing unsafe may happen) ──▶ calm ──▶ settle ──▶ answers ──▶ end
                                                            liveness: everything promised must

Everything follows from the seed, so an outcome can be repeated by one command.

Not here   many seeds (`many.py`); making a failing scenario smaller (`shrink.py`).
"""

import traceback
from collections.abc import Sequence

from msgspec import Struct

from shoal.kernel.rng import Rng
from shoal.kernel.time import MILLISECOND, SECOND
from shoal.sim.loop import Watcher
from shoal.sim.network import Weather
from shoal.sim.runs.cast import Cast
from shoal.sim.runs.load import Load
from shoal.sim.runs.scenario import Scenario
from shoal.sim.runs.storm import Storm
from shoal.sim.topology import topology_of
from shoal.sim.trace import Digest, Several
from shoal.sim.world import Failed, World

__all__ = ["Failure", "Outcome", "run"]

#: Questions that are asked when everything has settled are answered within this.
_ANSWERS_S = 15.0


class Failure(Struct, frozen=True):
    """Why a run failed."""

    #: Seconds of the world, the number of events so far, the peer or checker, and what it was.
    at_s: float
    events: int
    who: str
    what: str
    where: str = ""


class Outcome(Struct, frozen=True):
    """What came of one run."""

    scenario: str
    seed: int
    failure: Failure | None
    digest: str
    events: int
    messages: int
    peers: int
    seconds: float
    probes: dict[str, int]
    figures: dict[str, float]

    @property
    def ok(self) -> bool:
        """Whether everything held."""
        return self.failure is None


def run(
    scenario: Scenario,
    seed: int,
    cast: Cast,
    *,
    watchers: Sequence[Watcher] = (),
    validate_every: int = 16,
    name: str = "",
) -> Outcome:
    """Play a scenario with a seed."""
    digest = Digest()
    play = _Play(scenario, seed, cast, Several([digest, *watchers]), validate_every)
    failure = None
    try:
        play.all_of_it()
    except Failed as failed:
        failure = _failure(failed)
    except Exception as error:  # noqa: BLE001 (the simulator itself: told as what it is)
        failure = Failure(
            play.world.now / SECOND,
            play.world.events,
            "the simulator",
            f"{type(error).__name__}: {error}",
            traceback.format_exc(),
        )
    world = play.world
    figures = dict(play.load.figures())
    for checker in world.checkers:
        figures |= checker.figures()
    return Outcome(
        scenario=name or scenario.title,
        seed=seed,
        failure=failure,
        digest=digest.hexdigest(),
        events=world.events,
        messages=world.messages,
        peers=len(world.running()),
        seconds=world.now / SECOND,
        probes=dict(sorted((world.probes + world.network.happened).items())),
        figures=figures,
    )


def _failure(failed: Failed) -> Failure:
    cause = failed.__cause__
    where = "".join(traceback.format_exception(cause)) if cause is not None else ""
    return Failure(failed.at / SECOND, failed.events, failed.who, failed.what, where)


class _Play:
    """The phases of one run."""

    def __init__(
        self, scenario: Scenario, seed: int, cast: Cast, watcher: Watcher, validate_every: int
    ) -> None:
        rng = Rng(seed, "run")
        self.scenario = scenario
        self.load = Load(scenario.workload, rng.split("load"), asked=self._asked)
        mean = int(scenario.delay_ms * MILLISECOND)
        self.world = World(
            seed,
            cast.factory(scenario),
            topology=topology_of(scenario.topology, rng.split("topology"), mean=mean),
            weather=Weather(jitter_ms=scenario.weather.jitter_ms, heavy=0.0),
            checkers=[*cast.checkers(scenario), self.load],
            watcher=watcher,
            validate_every=validate_every,
        )
        self.calm_weather = self.world.network.weather
        self.storm = Storm(
            self.world,
            rng.split("storm"),
            weather=scenario.weather,
            peers_min=scenario.peers_min,
            losses_max=scenario.losses_max,
            repair=int(scenario.repair_s * SECOND),
            hooks=cast.hooks,
        )

    def all_of_it(self) -> None:
        """Form, faults, calm, settle, answers, end."""
        world, scenario = self.world, self.scenario
        self._form()
        span = int(scenario.faults_s * SECOND)
        world.network.set_weather(scenario.weather)
        self.load.begin(world.now + span)
        self.storm.begin(scenario.fault, world.now + span)
        world.run_for(span)
        self.storm.calm(self.calm_weather)
        world.calm()
        bound_s = max([scenario.settle_s, *(checker.bound_s for checker in world.checkers)])
        world.run_for(int(bound_s * SECOND))
        world.settle()
        world.run_for(int(_ANSWERS_S * SECOND))
        world.finish()
        self._require()

    def _form(self) -> None:
        """Peers start one after another and join through some that run."""
        world = self.world
        world.disturb("forming")
        for index in range(self.scenario.peers):
            node = world.add_host()
            world.start(node, [] if index == 0 else self.storm.seeds(node))
            world.run_for(int(self.scenario.join_ms * MILLISECOND))
        world.run_for(int(self.scenario.form_s * SECOND))
        world.undisturb("forming")

    def _asked(self, question: str) -> None:
        self.storm.asked(question)

    def _require(self) -> None:
        """A scenario that did not do what it says proves nothing."""
        counts = self.world.probes + self.world.network.happened
        for probe, least in self.scenario.require.items():
            if counts[probe] < least:
                what = f"{probe!r} happened {counts[probe]} times of {least} that are required"
                raise Failed(self.world.now, self.world.events, "the scenario", what)
