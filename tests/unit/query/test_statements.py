"""Places: an error of a part is told where it stands in the whole."""

import pytest

from shoal.kernel.errors import UserError
from shoal.query.statements import Place


@pytest.mark.parametrize(
    ("inner", "outer"),
    [
        ((None, None), (3, 8)),
        ((1, 1), (3, 8)),
        ((1, 5), (3, 12)),
        ((2, 5), (4, 5)),
        ((2, 0), (4, 1)),
    ],
)
def test_an_error_is_moved(inner: tuple[int | None, int | None], outer: tuple[int, int]) -> None:
    line, column = inner
    error = UserError("what", detail="detail", hint="hint", line=line, column=column)
    told = Place(line=3, column=8).told(error)
    assert (told.line, told.column) == outer
    assert (told.what, told.detail, told.hint) == ("what", "detail", "hint")
