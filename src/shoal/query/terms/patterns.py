"""Patterns of LIKE and RLIKE, checked before they become parameters.

A pattern is a hole, so Spark compiles it for each tuple, where a bad one would throw. Here is
the last place where a person can be told. For RLIKE only that part of the syntax is let in
which Java and every other engine read alike, and whose matching takes bounded time and stack:
no repeated groups, no references back, no looking around.

Promises   a pattern that passes never throws in Spark.
"""

import re

from shoal.kernel.errors import UserError

__all__ = ["check_like", "check_regex"]

#: Characters of a pattern; a guess.
PATTERN_MAX = 1_000
#: Repetitions of which the number is open; each one multiplies the worst time.
REPEATS_MAX = 4
#: The largest number in `{m,n}`.
COUNT_MAX = 100

_ATOM = r"""(?:
      \\[dDwWsSbB]                  # classes and word boundary
    | \\[\\.^$|?*+()\[\]{}/-]       # an escaped sign
    | \\[nrtf]
    | \[\^?(?:\\[dDwWsS\\\]\[^&~-]|[^\]\[\\&~])+\]   # a class, without nesting and intersection
    | [^\\.^$|?*+()\[\]{}]
    | \.
)"""
_TOKEN = re.compile(
    rf"""(?P<atom>{_ATOM})(?P<repeat>[*+?]|\{{\d{{1,3}}(?:,\d{{0,3}})?\}})?
    | (?P<open>\((?:\?:)?) | (?P<close>\)) | (?P<other>[\^$|])""",
    re.VERBOSE,
)


def check_like(pattern: str, escape: str) -> None:
    """UserError unless each escape character stands before a wildcard or itself."""
    at = 0
    while at < len(pattern):
        if pattern[at] != escape:
            at += 1
            continue
        follower = pattern[at + 1 : at + 2]
        if follower not in ("_", "%", escape):
            raise UserError(
                f"LIKE pattern {pattern!r} cannot be used",
                detail=f"the escape {escape!r} stands before {follower!r}",
                hint=f"it goes before _ or % or itself; write {escape * 2} for the character",
            )
        at += 2


def check_regex(pattern: str) -> None:
    """UserError unless the pattern is in the part of the syntax described above."""
    if len(pattern) > PATTERN_MAX:
        raise _refused(pattern[:50] + "...", f"it is longer than {PATTERN_MAX} characters")
    depth = at = repeats = 0
    while at < len(pattern):
        match = _TOKEN.match(pattern, at)
        if not match:
            raise _refused(pattern, f"not understood from {pattern[at : at + 20]!r}")
        depth += bool(match["open"]) - bool(match["close"])
        if depth < 0:
            break
        repeats += _check_repeat(pattern, match["repeat"] or "")
        at = match.end()
    if depth:
        raise _refused(pattern, "its parentheses do not match")
    if repeats > REPEATS_MAX:
        raise _refused(pattern, f"it has more than {REPEATS_MAX} open repetitions")
    try:
        re.compile(pattern)
    except re.error as error:
        raise _refused(pattern, str(error)) from error


def _check_repeat(pattern: str, repeat: str) -> int:
    """Whether this repetition is an open one: 1 or 0."""
    if not repeat.startswith("{"):
        return int(repeat in ("*", "+") and bool(repeat))
    numbers = [int(part) for part in repeat[1:-1].split(",") if part]
    if max(numbers) > COUNT_MAX or numbers != sorted(numbers):
        raise _refused(pattern, f"in {repeat} the numbers go up to {COUNT_MAX}, the lesser first")
    return int(repeat.endswith(",}"))


def _refused(pattern: str, detail: str) -> UserError:
    return UserError(
        f"RLIKE pattern {pattern!r} cannot be used",
        detail=detail,
        hint="possible: characters, classes, . ^ $ |, groups without repetition, and * + ? "
        "{m,n} after a character or a class; or use LIKE, startswith, contains",
    )
