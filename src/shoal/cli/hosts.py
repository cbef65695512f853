"""Commands about hosts and keys: `shoal up`, and what one asks of a host that runs.

Exit codes of `up`: 0 it was told to stop; 2 something must be said differently; 3 the home did not
do what the host needs of it; 70 a defect of ours, to be reported with the log; 130 it was told to
stop a second time, and did so without good-byes.
"""

import json
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.kernel.errors import LocalError, ShoalError, StorageError
from shoal.kernel.time import format_instant

if TYPE_CHECKING:
    from shoal.host.run import Settings

__all__ = [
    "add_commands",
    "down",
    "init",
    "issue",
    "lookup",
    "peers",
    "revoke",
    "ring",
    "status",
    "trace",
    "up",
]

_DEFECT = 70
_STORAGE = 3
_WRONG = 2
_AT_ONCE = 130

Home = Annotated[
    Path | None, typer.Option(help="the folder of the host; by default ~/.shoal/<name>")
]
Name = Annotated[str, typer.Option(help="the peer's name, where its home is the usual one")]
AsJson = Annotated[bool, typer.Option("--json", help="one line of JSON")]
Authority = Annotated[Path, typer.Option("--keys", help="the folder of the authority")]

keys = typer.Typer(no_args_is_help=True, help="The mesh's own authority and its certificates.")


def add_commands(app: typer.Typer) -> None:
    """Add the commands of this module."""
    for command in (up, down, status, peers, ring, lookup, trace):
        app.command()(command)
    app.add_typer(keys, name="keys")


def up(
    name: Annotated[str, typer.Option(help="the peer's name; its place on the ring follows")],
    join: Annotated[
        list[str] | None, typer.Option(help="host:port of a peer; may be given several times")
    ] = None,
    listen: Annotated[str, typer.Option(help="host:port; port 0 takes any free one")] = (
        "127.0.0.1:0"
    ),
    advertise: Annotated[str, typer.Option(help="host:port that others are told")] = "",
    keys: Annotated[
        Path | None, typer.Option(help="the peer's folder of keys, or the authority's")
    ] = None,
    home: Home = None,
    offer: Annotated[
        list[str] | None, typer.Option(help="an operator that this peer can run; several times")
    ] = None,
    log_json: Annotated[bool, typer.Option(help="log lines as JSON")] = False,
    verbose: Annotated[bool, typer.Option(help="log also what is usual")] = False,
) -> None:
    """Run a peer on this machine until Ctrl-C; without --join it begins a ring."""
    from shoal.host.run import Settings

    settings = Settings(
        name=name,
        home=_home(home, name),
        listen=listen,
        advertise=advertise,
        join=tuple(join or ()),
        keys=keys,
        offers=tuple(offer or ()),
    )
    raise typer.Exit(_run(settings, log_json=log_json, level="debug" if verbose else "info"))


def down(home: Home = None, name: Name = "") -> None:
    """Tell a host to stop, as Ctrl-C does."""
    _ask(_home(home, name), {"ask": "stop"})


def status(home: Home = None, name: Name = "", as_json: AsJson = False) -> None:
    """Show how a host is: its identity, its connections, what it has refused."""
    found = _ask(_home(home, name), {"ask": "status"})
    if as_json:
        _line(found)
        return
    me, net, peer = found["me"], found["net"], found["peer"]
    _row("peer", f"{me['name']} at {me['address']}, incarnation {me['incarnation']}")
    _row("mesh", found["mesh"] or "without keys: this machine only")
    _row("events", f"{peer['event']} handled, {found['waiting']} waiting")
    _row("messages", f"{peer['refused']} refused, {peer['ignored']} ignored")
    _row("connected", f"{len(net['links'])} peers, {net['waiting_bytes']} bytes wait to be sent")
    for what, count in sorted(net["counts"].items()):
        _row("", f"{what}: {count}")


def peers(home: Home = None, name: Name = "", as_json: AsJson = False) -> None:
    """List whom a host knows."""
    found = _ask(_home(home, name), {"ask": "peers"})
    if as_json:
        _line(found)
        return
    for one in found:
        state = "connected" if one["connected"] else "known"
        typer.echo(f"{one['name']:20} {one['address']:24} {one['incarnation']:<12} {state}")


def ring(
    home: Home = None,
    name: Name = "",
    whole: Annotated[bool, typer.Option("--all", help="walk around the whole ring")] = False,
    as_json: AsJson = False,
) -> None:
    """Show a peer's neighbours on the ring, or everybody in their order."""
    found = _ask(_home(home, name), {"ask": "walk" if whole else "ring"})
    if as_json:
        _line(found)
        return
    if whole:
        for one in found:
            typer.echo(f"{_place(one['name'])}  {one['name']:20} {one['address']}")
        return
    view = found["view"] or {}
    _row("peer", _shown(found["me"]))
    for field, value in view.items():
        if field == "me":
            continue
        if isinstance(value, list):
            for position, one in enumerate(value):
                _row(field if position == 0 else "", _shown(one))
        else:
            _row(field, _shown(value))


def lookup(
    key: Annotated[str, typer.Argument(help="a name, or 40 hexadecimal digits")],
    home: Home = None,
    name: Name = "",
    as_json: AsJson = False,
) -> None:
    """Find the peer that keeps a key, and what the directory has under it."""
    folder = _home(home, name)
    found = _ask(folder, {"ask": "lookup", "key": key})
    found["records"] = _ask(folder, {"ask": "records", "key": key})
    if as_json:
        _line(found)
    else:
        _row("key", found["key"])
        _row("keeper", _shown(found["owner"]))
        _row("hops", str(found["hops"]))
        for one in found["records"]:
            what = one.get("instance") or one.get("operator")
            _row(one["kind"].removesuffix("Record").lower(), f"{what} at {one['owner']['name']}")
    if found["owner"] is None:
        raise typer.Exit(1)


def trace(
    peer: Annotated[str, typer.Argument(help="the peer; by default the one that is asked")] = "",
    home: Home = None,
    name: Name = "",
    thing: Annotated[str, typer.Option(help="only what is about this thing")] = "",
    lines: Annotated[int, typer.Option(help="how many of the newest lines")] = 50,
    as_json: AsJson = False,
) -> None:
    """Print the story of a peer: what happened, and what led to it."""
    request = {"ask": "trace", "peer": peer, "thing": thing, "lines": lines}
    found = _ask(_home(home, name), request)
    if as_json:
        _line(found)
        return
    if found["forgotten"]:
        typer.echo(f"({found['forgotten']} older lines are forgotten)")
    for one in found["lines"]:
        at = format_instant(one["at"])
        because = one["because"] or "-"
        typer.echo(f"{at:27} #{one['event']:<7} {because:20} {one['thing']}: {one['what']}")


@keys.command()
def init(folder: Annotated[Path, typer.Argument(help="where the authority will be")]) -> None:
    """Make the authority of a new mesh."""
    from shoal.host.keys import authority

    mesh = authority.init(folder)
    typer.echo(f"mesh {mesh} has its authority in {folder}; keep that folder, it cannot be remade")


@keys.command()
def issue(
    name: Annotated[str, typer.Argument(help="the peer's name")],
    folder: Authority = Path("keys"),
    days: Annotated[int, typer.Option(help="how long the certificate holds")] = 365,
) -> None:
    """Issue a certificate with a new key to a peer."""
    from shoal.host.keys import authority

    made = authority.issue(folder, name, days=days)
    typer.echo(f"{made}: copy this folder to the peer's machine and start it with --keys")


@keys.command()
def revoke(
    name: Annotated[str, typer.Argument(help="the peer's name")],
    folder: Authority = Path("keys"),
) -> None:
    """Take back every certificate of a peer."""
    from shoal.host.keys import authority

    count = authority.revoke(folder, name)
    typer.echo(
        f"{count} certificates of {name} revoked; copy {folder / 'revoked.pem'} beside the key of "
        "one running peer, and it tells the others"
        if count
        else f"certificates of {name} had been revoked before"
    )


def _run(settings: "Settings", *, log_json: bool, level: str) -> int:
    import asyncio

    from shoal.host.logs import Log, Writer
    from shoal.host.run import serve

    writer = Writer(sys.stdout)
    log = Log(writer, peer=settings.name, json=log_json, level=level)
    try:
        asyncio.run(serve(settings, log))
    except ShoalError as error:
        log.error(error.what, detail=error.detail, hint=error.hint)
        typer.echo(f"error: {error}", err=True)
        return _code_of(error)
    except (KeyboardInterrupt, asyncio.CancelledError):
        return _AT_ONCE
    except Exception as error:  # noqa: BLE001 - the last place where a person can be told
        log.error("defect", what=repr(error), trace=traceback.format_exc())
        typer.echo(f"error: defect of Shoal: {error!r}; please report it with the log", err=True)
        return _DEFECT
    finally:
        writer.close()
    return 0


def _code_of(error: ShoalError) -> int:
    if isinstance(error, LocalError):
        return _DEFECT
    return _STORAGE if isinstance(error, StorageError) else _WRONG


def _home(home: Path | None, name: str) -> Path:
    """The home that was named; else the usual one of the name; else the only one there is."""
    if home is not None:
        return home
    usual = Path.home() / ".shoal"
    if name:
        return usual / name
    found = sorted(path for path in usual.glob("*") if (path / "console.sock").exists())
    if len(found) == 1:
        return found[0]
    raise typer.BadParameter(
        f"{len(found)} hosts have their homes in {usual}; say which with --name or --home"
    )


def _ask(home: Path, request: Mapping[str, Any]) -> Any:
    from shoal.host.console.lines import ask

    return ask(home, request)


def _line(value: Any) -> None:
    typer.echo(json.dumps(value, separators=(",", ":")))


def _row(label: str, text: str) -> None:
    typer.echo(f"{label:14} {text}")


def _shown(value: Any) -> str:
    """A contact with its place, or whatever else it is."""
    if isinstance(value, dict) and "address" in value:
        return f"{_place(value['name'])}  {value['name']:20} {value['address']}"
    return "-" if value is None else str(value)


def _place(name: str) -> str:
    from shoal.kernel.keys import key_of_name, short

    return short(key_of_name(name))
