"""`FROM readings [RANGE 10 MINUTES SLIDE 1 MINUTE] AS r`: windows of CQL, which no parser knows.

They are taken out before parsing. In their place stands a TABLESAMPLE, whose number tells which
window it was; a TABLESAMPLE that somebody wrote is refused, so that none is taken for another.

Promises   a window is found behind what it was written behind, or refused with its place.
Not here   what a duration is (`durations.py`).
"""

from collections.abc import Mapping
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from shoal.kernel.errors import UserError
from shoal.query.sql_select.durations import window_of
from shoal.query.terms.tree import place
from shoal.query.windows.shape import Window

__all__ = ["Ranges", "take_out", "window_behind"]

_HINT = "write FROM readings [RANGE 10 MINUTES SLIDE 1 MINUTE]"
_NAMES = (TokenType.VAR, TokenType.IDENTIFIER)
_PLACES_MAX = 100

#: The windows of a text, by the offset of their bracket.
Ranges = Mapping[int, Window]


def take_out(text: str, tokens: list[Token]) -> tuple[list[Token], Ranges]:
    """The tokens with a stand-in for each window, and the windows."""
    found: dict[int, Window] = {}
    kept: list[Token] = []
    at = 0
    while at < len(tokens):
        token = tokens[at]
        if token.token_type == TokenType.TABLE_SAMPLE:
            hint = "filter with WHERE; hash(meter) % 100 = 0 is a sample that stays the same"
            raise _wrong(text, token, "TABLESAMPLE cannot be used", hint=hint)
        if not _opens(tokens, at):
            kept.append(_plain(tokens, at))
            at += 1
            continue
        end = _closing(text, tokens, at)
        found[token.start] = _window(text, tokens[at:end])
        at = end + 1
        alias = _name_before(kept)
        head = kept[: len(kept) - alias]
        if head and head[-1].start in found:
            raise _wrong(text, token, "a query has one window", hint="leave this one out")
        if _is_subquery(head):
            # The parser wants the name of a subquery before, that of a table behind it.
            ahead = 0 if alias else _name_length(tokens, at)
            kept += [*tokens[at : at + ahead], *_stand_in(token)]
            at += ahead
        elif len(head) >= 2 and head[-2].token_type == TokenType.FROM:
            kept = [*head, *_stand_in(token), *kept[len(head) :]]
        else:
            what = "a window stands right behind the stream that it cuts"
            raise _wrong(text, token, what, hint=_HINT)
    return kept, found


def window_behind(node: Any, ranges: Ranges) -> Window | None:
    """The window that was written behind a table or a subquery."""
    sample = node.args.get("sample")
    if not isinstance(sample, exp.TableSample):
        return None
    return ranges.get(sample.args["size"].meta.get("start", -1))


def _opens(tokens: list[Token], at: int) -> bool:
    """Whether a window begins here; other brackets are for the parser to refuse."""
    if tokens[at].token_type != TokenType.L_BRACKET or at + 1 >= len(tokens):
        return False
    return tokens[at + 1].text.upper() == "RANGE"


def _plain(tokens: list[Token], at: int) -> Token:
    """The token; `window` of `window(ts, ..)` and `window.start` as a name like others, because
    the parser would take it for the beginning of a WINDOW clause.
    """
    token = tokens[at]
    after = tokens[at + 1].token_type if at + 1 < len(tokens) else None
    if token.token_type != TokenType.WINDOW or after not in (TokenType.L_PAREN, TokenType.DOT):
        return token
    return Token(TokenType.VAR, token.text, token.line, token.col, token.start, token.end)


def _closing(text: str, tokens: list[Token], at: int) -> int:
    for end in range(at, min(len(tokens), at + _PLACES_MAX)):
        if tokens[end].token_type == TokenType.R_BRACKET:
            return end
    raise _wrong(text, tokens[at], "a window is not closed", hint=_HINT)


def _window(text: str, tokens: list[Token]) -> Window:
    """The window of the tokens from `[` on, without `]`."""
    words = [token.text for token in tokens[2:]]
    slides = [number for number, word in enumerate(words) if word.upper() == "SLIDE"]
    if len(slides) > 1:
        raise _wrong(text, tokens[2 + slides[1]], "a window has one SLIDE", hint=_HINT)
    split = slides[0] if slides else len(words)
    length = " ".join(words[:split])
    slide = " ".join(words[split + 1 :]) if slides else None
    try:
        return window_of(length, slide)
    except UserError as error:
        raise _wrong(text, tokens[0], error.what, detail=error.detail, hint=error.hint) from None


def _is_subquery(tokens: list[Token]) -> bool:
    """Whether these end with `FROM (...)`."""
    if not tokens or tokens[-1].token_type != TokenType.R_PAREN:
        return False
    depth = 0
    for at in range(len(tokens) - 1, 0, -1):
        kind = tokens[at].token_type
        depth += (kind == TokenType.R_PAREN) - (kind == TokenType.L_PAREN)
        if not depth:
            return tokens[at - 1].token_type == TokenType.FROM
    return False


def _name_before(tokens: list[Token]) -> int:
    """How many tokens at the end are the name that AS gives: `AS t`, `t` or none."""
    kinds = [token.token_type for token in tokens[-3:]]
    if kinds[-2:-1] == [TokenType.ALIAS]:
        return 2
    named = kinds[-1:] and kinds[-1] in _NAMES and kinds[-2:-1] != [TokenType.FROM]
    return int(bool(named))


def _name_length(tokens: list[Token], at: int) -> int:
    """How many tokens the name of a subquery takes that begins here: `AS t`, `t` or none."""
    kinds = [token.token_type for token in tokens[at : at + 2]]
    if kinds[:1] == [TokenType.ALIAS]:
        return len(kinds)
    return int(bool(kinds) and kinds[0] in _NAMES)


def _stand_in(bracket: Token) -> list[Token]:
    parts = (
        (TokenType.TABLE_SAMPLE, "TABLESAMPLE"),
        (TokenType.L_PAREN, "("),
        (TokenType.NUMBER, "1"),
        (TokenType.ROWS, "ROWS"),
        (TokenType.R_PAREN, ")"),
    )
    where = (bracket.line, bracket.col, bracket.start, bracket.end)
    return [Token(kind, word, *where) for kind, word in parts]


def _wrong(text: str, token: Token, what: str, *, detail: str = "", hint: str) -> UserError:
    line, column = place(text, token.start)
    return UserError(what, detail=detail, hint=hint, line=line, column=column)
