"""Text to tokens, and a cursor that takes the tokens of one statement from left to right.

Promises   a text that is no sequence of tokens is a UserError that says where it stops being one;
           a cursor's errors say what could stand there, with the nearest word.
Not here   the grammar of statements (`sql_script.py`) and of queries (`sql.py`).

The tokens are sqlglot's, made plain: string constants have Spark's own escapes, neighbouring ones
are one, and no word swallows the rest of its statement.
"""

import re
from collections.abc import Iterable, Sequence
from typing import ClassVar

from sqlglot.dialects.spark import Spark
from sqlglot.tokenizer_core import Token, TokenType

from shoal.kernel.errors import UserError
from shoal.query.statements import Place
from shoal.query.terms.literals import unescape
from shoal.query.terms.tree import place
from shoal.query.terms.types import nearest

__all__ = ["SPARK", "Cursor", "check_text", "first_line", "place_of", "tokens_of"]

SPARK = Spark()

#: What is skipped as a whole when the first unreadable place is looked for; else one character.
_PIECE = re.compile(
    r"--[^\n]*|/\*.*?\*/|'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|`[^`]*`|[^'\"`/\\-]+|/\*|.",
    re.DOTALL,
)
_WORD = re.compile(r"[^\W\d]\w*")
_VALUES = (TokenType.STRING, TokenType.RAW_STRING, TokenType.NUMBER)
_TEXTS = (TokenType.STRING, TokenType.RAW_STRING)
_QUOTED = (*_VALUES, TokenType.IDENTIFIER, TokenType.HEX_STRING, TokenType.BIT_STRING)


class _Tokenizer(Spark.Tokenizer):
    """Spark's, but none of SHOW, EXPLAIN and their like takes what follows as one text."""

    COMMANDS: ClassVar = Spark.Tokenizer.COMMANDS.difference(Spark.Tokenizer.COMMANDS)


def check_text(text: str, *, kind: str, characters_max: int) -> None:
    """Raise UserError unless the text has a bearable length and is all Unicode."""
    what = f"a {kind} has at most {characters_max} characters, all of them Unicode"
    if len(text) > characters_max:
        hint = "keep long lists in a stream" if kind == "query" else "run it in parts"
        raise UserError(what, detail=f"here {len(text)}", hint=hint, line=1, column=1)
    for at, character in enumerate(text):
        if character == "\0" or 0xD800 <= ord(character) < 0xE000:
            line, column = place(text, at)
            hint = "was the file read in its encoding? write text as UTF-8"
            raise UserError(what, detail=f"here {character!r}", hint=hint, line=line, column=column)


def tokens_of(text: str, *, kind: str, hint: str) -> list[Token]:
    """The tokens of a text; `kind` and `hint` are for the error if it has none."""
    try:
        raw = _Tokenizer(dialect=SPARK).tokenize(text)
    except Exception:  # noqa: BLE001 - sqlglot also fails with plain Python errors
        at = _broken_at(text)
        line, column = place(text, at)
        detail = f"what begins here has no end, or no meaning: {first_line(text[at : at + 40])}"
        raise UserError(
            f"{kind} cannot be read", detail=detail, hint=hint, line=line, column=column
        ) from None
    tokens: list[Token] = []
    for token in raw:
        if token.token_type != TokenType.STRING:
            tokens.append(token)
            continue
        body = text[token.start + 1 : token.end]
        last = tokens[-1] if tokens else None
        if last is None or last.token_type != TokenType.STRING:
            tokens.append(_string(unescape(body), token, token.start))
            continue
        # Neighbouring constants are one constant; a doubled quote stands for itself.
        glue = text[token.start] if last.end + 1 == token.start else ""
        same = text[last.end : last.end + 1] == glue
        tokens[-1] = _string(last.text + (glue if same else "") + unescape(body), token, last.start)
    return tokens


def first_line(said: object) -> str:
    """What a text or a foreign error says, in one line."""
    return (str(said).splitlines() or [type(said).__name__])[0][:200]


def place_of(text: str, offset: int) -> Place:
    """The place of an offset."""
    line, column = place(text, offset)
    return Place(line=line, column=column)


def _string(value: str, token: Token, start: int) -> Token:
    return Token(TokenType.STRING, value, token.line, token.col, start, token.end)


def _broken_at(text: str) -> int:
    """Where the first piece begins that makes the text unreadable."""
    pieces = [match.span() for match in _PIECE.finditer(text)]
    low, high = 0, max(len(pieces) - 1, 0)
    while low < high:
        middle = (low + high) // 2
        if _readable(text[: pieces[middle][1]]):
            low = middle + 1
        else:
            high = middle
    return pieces[low][0] if pieces else 0


def _readable(text: str) -> bool:
    try:
        _Tokenizer(dialect=SPARK).tokenize(text)
    except Exception:  # noqa: BLE001 - whatever it trips over, the text is to blame
        return False
    return True


class Cursor:
    """The tokens of one statement, and how many of them are taken."""

    def __init__(self, script: str, tokens: Sequence[Token]) -> None:
        self.script = script
        #: What is being read, and how it is written: for errors.
        self.kind = "a statement"
        self.usage = ""
        self._tokens = tokens
        self._taken = 0

    @property
    def ended(self) -> bool:
        """Whether all is taken."""
        return self._taken == len(self._tokens)

    @property
    def is_last(self) -> bool:
        """Whether one token is left."""
        return self._taken == len(self._tokens) - 1

    @property
    def place(self) -> Place:
        """Where the next token stands, or the end of the last."""
        if self.ended:
            return place_of(self.script, self._tokens[-1].end + 1)
        return place_of(self.script, self._tokens[self._taken].start)

    @property
    def shown(self) -> str:
        """The next token as it was written; empty at the end."""
        if self.ended:
            return ""
        token = self._tokens[self._taken]
        return self.script[token.start : token.end + 1]

    def word(self, ahead: int = 0) -> str:
        """The next bare word in upper case; empty if something else comes."""
        if self._taken + ahead >= len(self._tokens):
            return ""
        token = self._tokens[self._taken + ahead]
        bare = token.token_type not in _QUOTED and _WORD.fullmatch(token.text)
        return token.text.upper() if bare else ""

    def take(self, text: str) -> bool:
        """Take the next token if it is this word or sign."""
        found = self.word() == text or (not text.isalpha() and self.shown == text)
        self._taken += found
        return found

    def expect(self, *texts: str) -> None:
        """Take these words and signs; an error at the first that is not there."""
        for text in texts:
            if not self.take(text):
                raise self.refusal([text])

    def phrase(self, phrases: Iterable[str]) -> str:
        """Take the one of these phrases that comes next; their first words differ."""
        firsts = {phrase.split()[0]: phrase for phrase in phrases}
        if self.word() not in firsts:
            raise self.refusal(firsts.values())
        found = firsts[self.word()]
        self.expect(*found.split())
        return found

    def name(self, what: str) -> str:
        """Take a name, bare or in backticks, as it was written."""
        if not self.ended:
            token = self._tokens[self._taken]
            if token.token_type == TokenType.IDENTIFIER or token.token_type == TokenType.VAR:
                self._taken += 1
                return token.text
            if self.word():
                self._taken += 1
                return token.text
        raise self.refusal([f"the name of {what}"])

    def text(self) -> str | None:
        """Take a text constant if one comes next."""
        if self.ended or self._tokens[self._taken].token_type not in _TEXTS:
            return None
        self._taken += 1
        return self._tokens[self._taken - 1].text

    def number(self) -> str | None:
        """Take a number without a sign, as it was written, if one comes next."""
        if self.ended or self._tokens[self._taken].token_type != TokenType.NUMBER:
            return None
        self._taken += 1
        return self._tokens[self._taken - 1].text

    def skip_to(self, *ends: str) -> str:
        """Take everything up to one of these signs outside parentheses; as written, spaced."""
        parts: list[str] = []
        depth = 0
        while not self.ended and (depth or self.shown not in ends):
            depth += (self.shown == "(") - (self.shown == ")")
            parts.append(self.shown)
            self._taken += 1
        return " ".join(parts)

    def rest(self) -> tuple[str, Place]:
        """Take all that is left: the text as it was written, and where it begins."""
        begin, where = self._tokens[self._taken].start, self.place
        self._taken = len(self._tokens)
        return self.script[begin : self._tokens[-1].end + 1], where

    def refusal(self, possible: Iterable[str], *, hint: str = "") -> UserError:
        """What comes next cannot stand there; these could."""
        listed = [text if text[0].isalpha() else repr(text) for text in possible]
        what = f"{self.kind} cannot go on with {self.shown[:60]!r}"
        if self.ended:
            what = f"{self.kind} ends too soon"
        firsts = [phrase.split()[0] for phrase in listed]
        near = nearest(self.word(), firsts) if self.word() else ""
        return UserError(
            what,
            detail="possible here: " + (", ".join(listed) or "nothing more"),
            hint=hint or near or self.usage,
            line=self.place.line,
            column=self.place.column,
        )
