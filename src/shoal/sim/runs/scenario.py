"""Scenarios: a workload and faults as data, in a TOML file.

    title = "Neighbours die together"
    story = "Two neighbours crash at once, again and again; records survive."
    peers = 12
    faults_s = 60

    [workload]
    lookups_per_s = 2.0

    [[fault]]
    kind = "crash"
    every_s = 15
    count = 2
    who = "neighbours"

    [require]
    "crash of 2 neighbours at once" = 1

A key that is not known is refused with the nearest one that is.

Not here   what a run does with it (`run.py`); the kinds of faults (`faults.py`).
"""

import dataclasses
import difflib
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from shoal.control.directory.config import DirectoryConfig
from shoal.control.gossip.config import GossipConfig
from shoal.control.ring.config import RingConfig
from shoal.kernel.errors import UserError
from shoal.sim.network import Weather
from shoal.sim.runs.faults import KINDS, Fault
from shoal.sim.runs.hooks import HOOKS

__all__ = ["MACHINES", "Scenario", "Workload", "read", "read_file", "write"]

#: The machines that a scenario may ask for, in the order in which a peer has them.
Name = Literal["ring", "directory", "gossip"]
MACHINES: tuple[Name, ...] = ("ring", "directory", "gossip")

_CONFIGS: Mapping[str, type[RingConfig] | type[DirectoryConfig] | type[GossipConfig]] = {
    "ring": RingConfig,
    "directory": DirectoryConfig,
    "gossip": GossipConfig,
}


class Workload(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What peers are asked, all peers together. Rates are means of random waits."""

    lookups_per_s: float = 0.0
    #: Records that every peer owns from its start.
    records_per_peer: int = 0
    #: A peer publishes another record or withdraws one.
    changes_per_s: float = 0.0
    finds_per_s: float = 0.0
    #: Peers that watch a key each.
    watches: int = 0
    broadcasts_per_s: float = 0.0


class Scenario(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One scenario; times are seconds."""

    title: str
    story: str = ""
    peers: int = 12
    machines: tuple[Name, ...] = MACHINES
    topology: Literal["uniform", "tree", "transit-stub"] = "uniform"
    #: Mean delay between two hosts, before jitter; transit-stub paths are a few times longer.
    delay_ms: float = 10.0
    #: One peer starts each so many milliseconds; then the mesh gets some time to form.
    join_ms: float = 200.0
    form_s: float = 30.0
    faults_s: float = 60.0
    #: After faults have ended, by when everything promised must hold; checkers may need longer.
    settle_s: float = 60.0
    weather: Weather = Weather()
    workload: Workload = Workload()
    #: Settings of machines that differ from their defaults: `config.ring.successors_max = 4`.
    config: dict[str, dict[str, Any]] = {}
    fault: tuple[Fault, ...] = ()
    #: What must really have happened, so often, for a run to count.
    require: dict[str, int] = {}
    #: Peers that may be lost within the time that repair takes, and that time: promises are given
    #: for fewer than three.
    losses_max: int = 2
    repair_s: float = 30.0
    #: Never fewer peers than this.
    peers_min: int = 6


def read(text: str, *, name: str) -> Scenario:
    """The scenario of a TOML text; UserError says what is wrong with it."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"scenario {name!r} is not TOML", detail=str(error)) from error
    _check_keys(table, Scenario, f"scenario {name!r}")
    _check_keys(table.get("workload", {}), Workload, f"[workload] of scenario {name!r}")
    _check_keys(table.get("weather", {}), Weather, f"[weather] of scenario {name!r}")
    for fault in table.get("fault", ()):
        _check_fault(fault, name)
    _check_config(table.get("config", {}), name)
    try:
        scenario = msgspec.convert(table, Scenario)
    except msgspec.ValidationError as error:
        raise UserError(f"scenario {name!r} does not fit", detail=str(error)) from error
    _check(scenario, name)
    return scenario


def read_file(path: Path) -> Scenario:
    """The scenario of a file."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"scenario file {str(path)!r} cannot be read",
            detail=str(error.strerror),
            hint="give the path of a file such as scenarios/churn.toml",
        ) from error
    return read(text, name=path.stem)


def write(scenario: Scenario) -> str:
    """A TOML text that reads as this scenario; defaults are left out."""
    table = msgspec.to_builtins(scenario)
    default = msgspec.to_builtins(Scenario(title=""))
    lines = [
        f"{key} = {_toml(value)}"
        for key, value in table.items()
        if not isinstance(value, dict) and key != "fault" and value != default[key]
    ]
    for key in ("weather", "workload", "require"):
        base = default[key]
        changed = {k: v for k, v in table[key].items() if base.get(k) != v}
        if changed:
            lines += ["", f"[{key}]", *(f"{_toml_key(k)} = {_toml(v)}" for k, v in changed.items())]
    for machine, settings in table["config"].items():
        lines += ["", f"[config.{machine}]", *(f"{k} = {_toml(v)}" for k, v in settings.items())]
    for fault, values in zip(scenario.fault, table["fault"], strict=True):
        empty = _fault_defaults(type(fault))
        lines += ["", "[[fault]]", f"kind = {_toml(values['kind'])}"]
        lines += [f"{k} = {_toml(v)}" for k, v in values.items() if k != "kind" and empty[k] != v]
    return "\n".join(lines) + "\n"


def _fault_defaults(kind: type[Struct]) -> dict[str, Any]:
    return {
        field.name: msgspec.to_builtins(field.default)
        if field.default is not msgspec.NODEFAULT
        else None
        for field in msgspec.structs.fields(kind)
    }


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return msgspec.json.encode(value).decode()
    if isinstance(value, list | tuple):
        return f"[{', '.join(_toml(item) for item in value)}]"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{_toml_key(k)} = {_toml(v)}' for k, v in value.items())} }}"
    return str(value)


def _toml_key(key: str) -> str:
    return key if key.replace("_", "").isalnum() else _toml(key)


def _check_fault(fault: Any, name: str) -> None:
    kind = fault.get("kind") if isinstance(fault, dict) else None
    if kind not in KINDS:
        raise UserError(
            f"fault of kind {kind!r} in scenario {name!r} is not known",
            hint=_nearest(str(kind), list(KINDS)),
        )
    keys = {key: value for key, value in fault.items() if key != "kind"}
    _check_keys(keys, KINDS[kind], f"fault {kind!r} of scenario {name!r}")
    if kind == "corrupt" and keys.get("hook") not in HOOKS:
        raise UserError(
            f"hook {keys.get('hook')!r} of scenario {name!r} is not known",
            hint=_nearest(str(keys.get("hook")), list(HOOKS)),
        )
    if "rates" in keys:
        _check_keys(keys["rates"], Weather, f"rates of a fault of scenario {name!r}")


def _check_config(table: Mapping[str, Any], name: str) -> None:
    for machine, settings in table.items():
        if machine not in _CONFIGS:
            raise UserError(
                f"key {machine!r} of [config] of scenario {name!r} is not known",
                hint=_nearest(machine, list(_CONFIGS)),
            )
        known = [field.name for field in dataclasses.fields(_CONFIGS[machine])]
        for key in settings:
            if key not in known:
                raise UserError(
                    f"key {key!r} of [config.{machine}] of scenario {name!r} is not known",
                    hint=_nearest(key, known),
                )


def _check_keys(table: Mapping[str, Any], kind: type[Struct], place: str) -> None:
    known = [field.encode_name for field in msgspec.structs.fields(kind)]
    for key in table:
        if key not in known:
            raise UserError(f"key {key!r} of {place} is not known", hint=_nearest(key, known))


def _nearest(word: str, known: list[str]) -> str:
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.4)
    return f"did you mean {close[0]!r}?" if close else f"known are: {', '.join(known)}"


def _check(scenario: Scenario, name: str) -> None:
    rules = (
        (2 <= scenario.peers <= 20_000, "peers must be 2 to 20,000"),
        ("ring" in scenario.machines, "machines must have the ring, which the others stand on"),
        (scenario.peers_min <= scenario.peers, "peers_min must not exceed peers"),
        (0.0 <= scenario.weather.loss <= 0.3, "weather.loss must be 0 to 0.3"),
        (0.0 <= scenario.weather.duplicate <= 0.5, "weather.duplicate must be 0 to 0.5"),
        (scenario.delay_ms > 0.0, "delay_ms must be above 0"),
        (scenario.losses_max < scenario.peers, "losses_max must be below peers"),
        (
            all(fault.at_s or fault.every_s or fault.after for fault in scenario.fault),
            "each fault says when: at_s, every_s or after",
        ),
    )
    for holds, text in rules:
        if not holds:
            raise UserError(f"scenario {name!r} does not fit together", detail=text)
