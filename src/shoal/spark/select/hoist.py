"""Calls that only read the tuple are computed once for it, not for each row that it meets.

    texts    (s.`kwh` > p.p0) AND (try_mod(minute(s.`ts`), p.p1) = p.p2)
    becomes  (s.`kwh` > p.p0) AND (try_mod(s.`_x0`, p.p1) = p.p2)
    with     _x0 = minute(s.`ts`)

Texts are those of signatures (query/terms/safe.py): they never throw, so computing one for a tuple
that would not have needed it changes nothing. It pays twice: taking a minute out of an instant
costs more than all the rest of a comparison, and shorter predicates mean fewer parts of a plan.

Not here   which texts may be treated so: those of a signature that may throw may not.
"""

import re
from collections.abc import Callable, Iterable

__all__ = ["Hoisted"]

#: Quoted text, a name in backticks, the beginning of a call, or a parenthesis.
_TOKEN = re.compile(r"'(?:[^'\\]|\\.)*'|`[^`]*`|\b([A-Za-z_][A-Za-z0-9_]*)\(|[()]")
#: Quoted text and names; else what is read of the tuple, or of a row and a slot's constants.
_READ = re.compile(r"'(?:[^'\\]|\\.)*'|(?:\b(s\.))?`[^`]*`|\b([pi]\.)")
_NAME = re.compile(r"\bs\.`(_x\d+)`")


class Hoisted:
    """The calls taken out of texts so far, by name; equal calls have one name."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def columns_of(self, texts: Iterable[str]) -> tuple[str, ...]:
        """The calls that these texts name, as columns of a tuple that has an alias `s`."""
        named = dict.fromkeys(name for text in texts for name in _NAME.findall(text))
        return tuple(f"{call} AS `{name}`" for call, name in self._names.items() if name in named)

    def take(self, text: str) -> str:
        """The text with its outermost calls that only read the tuple replaced by their names."""
        return _replaced(text, self._name)

    def _name(self, call: str) -> str:
        return f"s.`{self._names.setdefault(call, f'_x{len(self._names)}')}`"


def _replaced(text: str, name: Callable[[str], str]) -> str:
    """One pass from left to right; a call that cannot be taken is looked into."""
    parts: list[str] = []
    done = at = 0
    while match := _TOKEN.search(text, at):
        at = match.end()
        if match.group(1) is None:
            continue
        end = _closing(text, at)
        call = text[match.start() : end]
        if _reads_tuple_only(call):
            parts += [text[done : match.start()], name(call)]
            done = at = end
    return "".join([*parts, text[done:]])


def _reads_tuple_only(call: str) -> bool:
    found = [match.groups() for match in _READ.finditer(call)]
    return any(tuple_ for tuple_, _ in found) and not any(other for _, other in found)


def _closing(text: str, at: int) -> int:
    """Just after the parenthesis that closes the one before `at`."""
    depth = 1
    for match in _TOKEN.finditer(text, at):
        token = match.group(0)
        if token.endswith("("):
            depth += 1
        elif token == ")":
            depth -= 1
        if depth == 0:
            return match.end()
    return len(text)
