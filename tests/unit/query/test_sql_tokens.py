"""Tokens, and the cursor that takes them: what it finds, and what it says when it does not."""

import pytest

from shoal.kernel.errors import UserError
from shoal.query.sql_tokens import Cursor, check_text, first_line, place_of, tokens_of
from shoal.query.statements import Place


def cursor(text: str) -> Cursor:
    return Cursor(text, tokens_of(text, kind="script", hint="mend it"))


def texts(text: str) -> list[str]:
    return [token.text for token in tokens_of(text, kind="script", hint="mend it")]


def test_constants_have_spark_s_escapes_and_neighbours_are_one() -> None:
    assert texts(r"'a\tb' 'c'") == ["a\tbc"]
    assert texts("'it''s' \"x\"\"y\"") == ["it'sx\"y"]
    assert texts(r"r'a\tb'") == [r"a\tb"]


@pytest.mark.parametrize("word", ["SHOW", "EXPLAIN", "CALL", "EXECUTE", "FETCH", "RENAME"])
def test_no_word_swallows_the_rest(word: str) -> None:
    assert texts(f"{word} a b; c") == [word, "a", "b", ";", "c"]


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("a 'b", 1, 3),
        ("a\n  /* b", 2, 3),
        ("'a' `b", 1, 5),
        ("-- '\n x 'it''s' \"", 2, 12),
        ("/* ' */ 'a\n b", 1, 9),
        ("'", 1, 1),
    ],
)
def test_what_has_no_end_is_told_where_it_begins(text: str, line: int, column: int) -> None:
    with pytest.raises(UserError, match="script cannot be read") as raised:
        tokens_of(text, kind="script", hint="mend it")
    assert (raised.value.line, raised.value.column) == (line, column)
    assert raised.value.hint == "mend it"


def test_what_is_no_text() -> None:
    check_text("größe 🐟", kind="query", characters_max=10)
    for text, line, column in (("a\n \0", 2, 2), ("\udfff", 1, 1), ("x" * 11, 1, 1)):
        with pytest.raises(UserError, match="at most 10 characters") as raised:
            check_text(text, kind="query", characters_max=10)
        assert (raised.value.line, raised.value.column) == (line, column)


def test_places_count_from_one() -> None:
    text = "a\nbc\n\nd"
    assert [place_of(text, at) for at in (0, 3, 6)] == [
        Place(line=1, column=1),
        Place(line=2, column=2),
        Place(line=4, column=1),
    ]


def test_one_line_of_what_others_say() -> None:
    assert first_line(ValueError("one\ntwo")) == "one"
    assert first_line(ValueError()) == "ValueError"
    assert len(first_line("x" * 1000)) == 200


def test_words_are_bare() -> None:
    found = cursor("one `two` 'three' 4 five_5 größe =>")
    assert [found.word(ahead) for ahead in range(8)] == [
        "ONE",
        "",
        "",
        "",
        "FIVE_5",
        "GRÖSSE",
        "",
        "",
    ]


def test_what_is_taken_is_gone() -> None:
    found = cursor("store none x => ( `a b`, 'text', 5 (, ) x) rest of it")
    assert not found.take("NONE")
    found.expect("STORE", "NONE")
    assert found.name("a thing") == "x"
    found.expect("=>", "(")
    assert found.name("a thing") == "a b"
    assert found.take(",")
    assert (found.number(), found.text(), found.text()) == (None, "text", None)
    found.expect(",")
    assert (found.number(), found.number()) == ("5", None)
    assert found.skip_to(")") == "( , ) x"
    assert (found.place, found.shown, found.is_last) == (Place(line=1, column=42), ")", False)
    assert found.rest() == (") rest of it", Place(line=1, column=42))
    assert (found.ended, found.shown, found.place) == (True, "", Place(line=1, column=54))


def test_parentheses_are_skipped_whole() -> None:
    found = cursor("decimal(10, 2) , b")
    assert found.skip_to(",", ")") == "decimal ( 10 , 2 )"
    assert found.shown == ","


def test_a_phrase_is_taken_whole_or_the_wrong_word_is_told() -> None:
    phrases = ("STORE NONE", "IDLE ADVANCES")
    assert cursor("idle advances").phrase(phrases) == "IDLE ADVANCES"
    with pytest.raises(UserError, match="cannot go on with 'advence'") as raised:
        cursor("idle advence").phrase(phrases)
    assert raised.value.hint == "did you mean ADVANCES?"
    assert (raised.value.line, raised.value.column) == (1, 6)
    with pytest.raises(UserError, match="ends too soon") as raised:
        cursor("idle").phrase(phrases)
    assert raised.value.detail == "possible here: ADVANCES"


def test_a_refusal_says_what_could_stand_there() -> None:
    found = cursor("stroe none")
    found.kind, found.usage = "CREATE STREAM", "write it well"
    near = found.refusal(["STORE NONE", "FROM"])
    assert str(near) == (
        "CREATE STREAM cannot go on with 'stroe' (line 1, column 1)\n"
        "  detail: possible here: STORE NONE, FROM\n"
        "  hint: did you mean STORE?"
    )
    assert found.refusal(["FROM"]).hint == "write it well"
    assert found.refusal([], hint="stop").detail == "possible here: nothing more"
    for wrong in ("'x'", "5", "("):
        with pytest.raises(UserError, match="cannot go on"):
            cursor(wrong).name("a thing")
