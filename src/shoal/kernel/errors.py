"""The errors of Shoal, each in three parts: what happened, the detail, and what to do.

A message is for the person who reads it at night. The first line says what, with the kind and
the name of the thing, in lower case and without a full stop; `detail` says why; `hint` says
what to do next. Who made the mistake decides the class, because it decides who must act:

    LocalError    our own caller broke a contract; the run stops
    RemoteError   another peer sent something it must not send; it costs that peer its standing
    UserError     a person wrote something that cannot be done as it stands
    StorageError  the root did not do what the log needs of it
    Fenced        another owner has taken the instance over; the old owner stops for good
"""

__all__ = ["Fenced", "LocalError", "RemoteError", "ShoalError", "StorageError", "UserError"]


class ShoalError(Exception):
    """The base of all errors that Shoal raises on purpose."""

    def __init__(self, what: str, *, detail: str = "", hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.detail = detail
        self.hint = hint

    def __str__(self) -> str:
        lines = [self.what]
        if self.detail:
            lines.append(f"  detail: {self.detail}")
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)


class LocalError(ShoalError):
    """Our own caller broke a contract."""


class RemoteError(ShoalError):
    """A message from outside broke a contract."""


class UserError(ShoalError):
    """What a person asked for cannot be done as it stands; `line` and `column` count from 1."""

    def __init__(
        self,
        what: str,
        *,
        detail: str = "",
        hint: str = "",
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        super().__init__(what, detail=detail, hint=hint)
        self.line = line
        self.column = column

    def __str__(self) -> str:
        where = "" if self.line is None else f" (line {self.line}, column {self.column or 1})"
        first, newline, rest = super().__str__().partition("\n")
        return f"{first}{where}{newline}{rest}"


class StorageError(ShoalError):
    """The root refused, lost or damaged something the log relies on."""


class Fenced(ShoalError):
    """Another owner has taken the instance over (promise L3); this one never commits again."""
