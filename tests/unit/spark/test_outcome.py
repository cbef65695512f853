"""What workers hand back: the words of a failure, and seconds by phase."""

import pytest

from shoal.spark.outcome import Laps, StepFailed, first_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "ValueError('')"),
        ("one line", "one line"),
        ("\n\n  first  \nsecond", "first"),
        (
            "An error occurred while calling o12.toArrow.\n: org.apache.spark.SparkException: "
            "[DIVIDE_BY_ZERO] Division by zero. Use try_divide.\n\tat org.apache",
            "[DIVIDE_BY_ZERO] Division by zero. Use try_divide.",
        ),
        (
            "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
            '  File "x.py", line 3, in f\n    raise ValueError("three")\nValueError: three\n',
            "ValueError: three",
        ),
        ("x" * 900, "x" * 500),
    ],
)
def test_the_line_that_says_what_is_wrong(text: str, words: str) -> None:
    """Spark's errors are long; one line tells."""
    failed = StepFailed(instance="c", phase="job", cause=ValueError(text))
    assert failed.reason == first_words(ValueError(text)) == words


def test_laps_add_up() -> None:
    """Each phase has the time since the last lap; a phase twice has both."""
    laps = Laps()
    for phase in ("job", "plan", "job"):
        laps.enter(phase)
    laps.leave()
    assert list(laps.seconds) == ["plan", "job"]
    assert laps.phase == "job"
    assert all(seconds >= 0 for seconds in laps.seconds.values())
