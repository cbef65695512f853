"""The `shoal` command."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from shoal.cli import hosts
from shoal.cli.sim import sim
from shoal.kernel.errors import ShoalError

__all__ = ["app", "demo", "doctor", "main", "shoal"]

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Thousands of continuous SQL queries on the Spark you already have.",
)


@app.callback()
def shoal() -> None:
    """Commands work on a root: the folder in which a mesh keeps everything."""


@app.command()
def doctor(
    root: Annotated[Path, typer.Argument(help="the folder to examine; it is created if absent")],
) -> None:
    """Find out whether a root can hold a mesh: create-if-absent, syncs, rights, room, clock."""
    from shoal.log.doctor import examine

    findings = examine(root)
    for finding in findings:
        typer.echo(f"{finding.level:6}  {finding.check}: {finding.what}")
        if finding.hint:
            typer.echo(f"        hint: {finding.hint}")
    if any(finding.level == "refuse" for finding in findings):
        raise typer.Exit(1)


@app.command()
def demo() -> None:
    """Watch hundreds of live queries over a stream of meters, and their check."""
    from shoal.cli.demo import main as run

    raise typer.Exit(run())


app.command()(sim)
hosts.add_commands(app)


def main() -> None:
    """Run a command; an error of ours is three lines and exit code 2, never a stack trace."""
    try:
        app()
    except ShoalError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
