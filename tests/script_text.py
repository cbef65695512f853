"""Values of scripts as text, and text as values (`tests/scripts.py`).

Contact    p2, or p2@3 when it is not its first incarnation; `-` for None
a key      key:p2 when it is the key of a name that the script has used, else eight digits
a number   as it is; a duration is written 250ms, 1.5s, 2min
a struct   Kind(field=value, ...), without the fields that have their default
"""

import re
import types
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Union, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, UNSET, Struct

from shoal.kernel.effects import (
    Answer,
    CancelTimer,
    Command,
    Effect,
    Note,
    Persist,
    Send,
    SetTimer,
    Tell,
)
from shoal.kernel.errors import ShoalError, UserError
from shoal.kernel.events import Asked, Received, TimerFired, Unreachable, Unreadable
from shoal.kernel.keys import KEY_BITS, Contact, key_of_name, short
from shoal.kernel.time import MILLISECOND, MINUTE, SECOND

__all__ = ["Words", "duration", "micros"]

_BYTES_SHOWN_MAX = 32
_UNITS = {"min": MINUTE, "s": SECOND, "ms": MILLISECOND, "us": 1}


class Words:
    """Writes and reads values; knows the keys of the names that were used."""

    def __init__(self, contact: Callable[[str], Contact]) -> None:
        self._contact = contact
        self._names: dict[bytes, str] = {}

    def key(self, name: str) -> bytes:
        """The key of a name; it is shown by the name from now on."""
        key = key_of_name(name)
        self._names[key] = name
        return key

    # --- values as text -------------------------------------------------------------------------

    def text(self, value: object) -> str:
        """A value as a person would write it."""
        match value:
            case None:
                return "-"
            case Contact(name=name, address=address, incarnation=incarnation):
                shown = name or f"whoever at {address}"
                return shown if incarnation <= 1 else f"{shown}@{incarnation}"
            case ShoalError():
                return f"{type(value).__name__}: {value.what}"
            case Struct():
                return self._struct(value)
            case bytes():
                return self._bytes(value)
            case Enum():
                return str(value.value)
            case dict():
                inner = (f"{self.text(key)}: {self.text(one)}" for key, one in value.items())
                return "{" + ", ".join(inner) + "}"
            case list() | tuple():
                return "[" + " ".join(self.text(one) for one in value) + "]"
            case _:
                return str(value)

    def _struct(self, value: Struct) -> str:
        fields = []
        for field in msgspec.structs.fields(value):
            one = getattr(value, field.name)
            default = field.default if field.default is not NODEFAULT else UNSET
            if field.default_factory is not NODEFAULT:
                default = field.default_factory()
            if one != default:
                fields.append(f"{field.name}={self.text(one)}")
        return f"{type(value).__name__}({', '.join(fields)})"

    def _bytes(self, value: bytes) -> str:
        if value in self._names:
            return f"key:{self._names[value]}"
        if len(value) == KEY_BITS // 8:
            return short(value)
        if len(value) > _BYTES_SHOWN_MAX:
            return f"<{len(value)} bytes>"
        return repr(value)[1:]

    def event(self, event: Struct) -> str:
        """What happened to a peer."""
        match event:
            case Received(sender=sender, message=message):
                return f"{self.text(message)} from {self.text(sender)}"
            case TimerFired(timer=timer):
                return f"timer {timer}"
            case Asked(request=request, question=question):
                return f"question {request}: {self.text(question)}"
            case Unreachable(peer=peer):
                return f"{self.text(peer)} cannot be reached"
            case Unreadable(peer=peer, why=why):
                return f"{self.text(peer)} is not understood: {why}"
            case _:
                return self.text(event)

    def effect(self, effect: Effect, now: int) -> str:
        """What is to be done."""
        match effect:
            case Send(to=to, message=message):
                return f"Send {self.text(to)} {self.text(message)}"
            case SetTimer(timer=timer, at=at):
                return f"SetTimer {timer} +{duration(at - now)}"
            case CancelTimer(timer=timer):
                return f"CancelTimer {timer}"
            case Persist(key=key, value=value):
                return f"Persist {key} {self.text(value)}"
            case Command(command=command):
                return f"Command {self.text(command)}"
            case Answer(request=request, result=result):
                return f"Answer {request}: {self.text(result)}"
            case Tell(news=news):
                return f"Tell {self.text(news)}"
            case Note(thing=thing, what=what):
                return f"Note {thing}: {what}"

    # --- text as values -------------------------------------------------------------------------

    def make(self, kind: type[Struct], arguments: Sequence[str]) -> Struct:
        """A struct from words: in the order of its fields, or `field=value`."""
        fields = {field.name: field for field in msgspec.structs.fields(kind)}
        order = list(fields)
        values: dict[str, object] = {}
        for position, argument in enumerate(arguments):
            name, equals, rest = argument.partition("=")
            if not equals or name not in fields:
                name, rest = order[position], argument
            values[name] = self.value(rest, fields[name].type)
        return kind(**values)

    def value(self, text: str, kind: Any) -> object:
        """A value of a type: `-` none, `p2` a contact, `a,b` a list, a name for a key, and
        `Kind/first/second` a struct."""
        if get_origin(kind) in (Union, types.UnionType):
            inner = [one for one in get_args(kind) if one is not type(None)]
            named = {one.__name__: one for one in inner if isinstance(one, type)}
            chosen = named.get(text.partition("/")[0], inner[0])
            return None if text == "-" else self.value(text, chosen)
        if get_origin(kind) in (tuple, list):
            parts = [part for part in text.split(",") if part not in ("", "-")]
            return tuple(self.value(part, get_args(kind)[0]) for part in parts)
        if kind is Contact:
            return self._contact(text)
        if isinstance(kind, type) and issubclass(kind, Struct) and "/" in text:
            return self.make(kind, text.split("/")[1:])
        if kind is bytes:
            return text[5:].encode() if text.startswith("text:") else self.key(text)
        if kind is str:
            return text
        return msgspec.convert(msgspec.json.decode(text), kind)


def duration(length: int) -> str:
    """A duration in its largest unit that is readable."""
    if length < 0:
        return f"-{duration(-length)}"
    for name, unit in _UNITS.items():
        if length >= unit and unit > 1:
            return f"{length / unit:.3f}".rstrip("0").rstrip(".") + name
    return f"{length}us" if length else "0s"


def micros(text: str) -> int:
    """The length of `5s`, `250ms` or `1.5min`."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(min|s|ms|us)", text)
    if found is None:
        raise UserError(f"duration {text!r} cannot be read", hint="write 5s, 250ms or 1.5min")
    return round(float(found[1]) * _UNITS[found[2]])
