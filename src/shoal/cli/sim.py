"""`shoal sim`: play a scenario with one seed, or many, or until one fails.

    shoal sim scenarios/churn.toml --seed 7 --trace     one run, every event
    shoal sim scenarios/churn.toml --seeds 1..200       many; what failed, and how to repeat it
    shoal sim scenarios --until-failure                 all scenarios of a folder, seed after seed
    shoal sim scenarios/churn.toml --seed 7 --shrink    a smaller scenario that still fails
    shoal sim scenarios --seeds 1..50 --shrink          the same of the first run that fails

Exit code 1 means that a run failed, 2 that the command was wrong.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.kernel.errors import UserError

if TYPE_CHECKING:
    from shoal.sim.runs.run import Outcome

__all__ = ["sim"]


def sim(
    scenario: Annotated[Path, typer.Argument(help="a scenario file, or a folder of them")],
    seed: Annotated[
        int | None, typer.Option(help="the one number that decides everything; 1 unless given")
    ] = None,
    seeds: Annotated[str, typer.Option(help="many seeds: 1..200")] = "",
    until_failure: Annotated[
        bool,
        typer.Option(
            "--until-failure", help="stop at the first run that fails; no end without --seeds"
        ),
    ] = False,
    trace: Annotated[bool, typer.Option("--trace", help="print every event")] = False,
    only: Annotated[str, typer.Option(help="trace these peers only: p3,p7")] = "",
    shrink: Annotated[
        bool,
        typer.Option(
            "--shrink", help="of the first run that fails, print a smaller scenario that does too"
        ),
    ] = False,
    every_event: Annotated[
        bool, typer.Option("--every-event", help="check each peer's own invariants at every event")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="one line of JSON for each run")] = False,
) -> None:
    """Play a scenario in the simulator; a failing run prints the command that repeats it."""
    from shoal.sim.runs.many import scenario_files

    numbers = _numbers(seed, seeds, until_failure=until_failure)
    if shrink and (trace or only or as_json):
        raise UserError(
            "--shrink cannot print anything else",
            detail="what it prints is a scenario file",
            hint="leave out --trace, --only and --json; trace the smaller scenario afterwards",
        )
    files = scenario_files(scenario) if scenario.is_dir() else [scenario]
    if not files:
        raise UserError(f"folder {str(scenario)!r} has no scenario", hint="name a file *.toml")
    long = len(files) == 1 and not seeds and not until_failure
    failed = 0
    runs = 0
    for path, outcome in _play(files, numbers, trace=trace, only=only, every_event=every_event):
        runs += 1
        failed += not outcome.ok
        if shrink and failed:
            _shrink(path, outcome.seed, every_event=every_event)
        elif not shrink:
            _say(path, outcome, as_json=as_json, long=long)
        if failed and (until_failure or shrink):
            break
    if shrink and not failed:
        typer.echo(f"none of {runs} runs fails" if runs > 1 else "the run does not fail")
    elif not as_json and not shrink and runs > 1:
        typer.echo(f"{runs} runs, {failed} failed")
    if failed:
        raise typer.Exit(1)


def _numbers(seed: int | None, seeds: str, *, until_failure: bool) -> Iterator[int]:
    """The seeds that are asked for, by one option or the other."""
    from shoal.sim.runs.many import seeds_of

    if seeds and seed is not None:
        raise UserError(
            "--seed and --seeds say different things",
            detail=f"--seed {seed} is one seed, --seeds {seeds} are others",
            hint="leave one of them out",
        )
    if until_failure and not seeds:
        return itertools.count(1 if seed is None else seed)
    return iter(seeds_of(seeds or str(1 if seed is None else seed)))


def _play(
    files: list[Path], numbers: Iterator[int], *, trace: bool, only: str, every_event: bool
) -> "Iterator[tuple[Path, Outcome]]":
    from shoal.sim.runs.cast import standard
    from shoal.sim.runs.run import run
    from shoal.sim.runs.scenario import read_file
    from shoal.sim.trace import TextTrace

    scenarios = [(path, read_file(path)) for path in files]
    cast = standard()
    names = [name for name in only.split(",") if name]
    for number in numbers:
        for path, scenario in scenarios:
            watchers = [TextTrace(typer.echo, only=names)] if trace or names else []
            every = _validate_every(every_event=every_event)
            outcome = run(
                scenario, number, cast, watchers=watchers, validate_every=every, name=path.stem
            )
            yield path, outcome


def _say(path: Path, outcome: "Outcome", *, as_json: bool, long: bool) -> None:
    if as_json:
        import msgspec

        typer.echo(msgspec.json.encode(outcome).decode())
        return
    word = "ok    " if outcome.ok else "FAILED"
    typer.echo(
        f"{word} {outcome.scenario} seed {outcome.seed}: {outcome.seconds:.0f} s, "
        f"{outcome.peers} peers, {outcome.events:,} events, {outcome.messages:,} messages, "
        f"digest {outcome.digest[:12]}"
    )
    if long:
        typer.echo(_table("happened", outcome.probes))
        typer.echo(_table("measured", outcome.figures))
    failure = outcome.failure
    if failure is not None:
        from shoal.sim.runs.many import command

        typer.echo(f"  at {failure.at_s:.6f} s, event {failure.events}, {failure.who}:")
        typer.echo(f"  {failure.what}")
        if long and failure.where:
            typer.echo(failure.where)
        typer.echo(f"  repeat it: {command(str(path), outcome.seed)}")


def _table(title: str, values: "dict[str, int] | dict[str, float]") -> str:
    rows = [f"    {name:40} {value:>12,}" for name, value in values.items()]
    return "\n".join([f"  {title}", *rows])


def _shrink(path: Path, seed: int, *, every_event: bool) -> None:
    """Print the smallest scenario that fails as this one does with this seed."""
    from shoal.sim.runs.cast import standard
    from shoal.sim.runs.scenario import read_file, write
    from shoal.sim.runs.shrink import shrink

    smallest, outcome = shrink(
        read_file(path),
        seed,
        standard(),
        validate_every=_validate_every(every_event=every_event),
        say=lambda line: typer.echo(line, err=True),
    )
    assert outcome.failure is not None
    typer.echo(f"# {path}, seed {seed}: {outcome.failure.what}")
    typer.echo(write(smallest))


def _validate_every(*, every_event: bool) -> int:
    return 1 if every_event else 16
