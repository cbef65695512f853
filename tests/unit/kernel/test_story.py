"""Stories: bounded, in order, by thing."""

from shoal.kernel.story import Line, Story


def line(number: int, thing: str = "ring") -> Line:
    """A line that says its number."""
    return Line(at=number, event=number, because="p3#209", thing=thing, what=f"line {number}")


def test_the_newest_lines_stay_and_the_others_are_counted() -> None:
    """Memory is bounded, and one can see that something is missing."""
    story = Story(3)
    for number in range(5):
        story.tell(line(number))
    assert [one.event for one in story] == [2, 3, 4]
    assert (story.told, story.forgotten) == (5, 2)


def test_the_lines_of_one_thing_and_its_parts() -> None:
    """`ring` has parts; `ringer` is something else."""
    story = Story(10)
    for number, thing in enumerate(["ring", "ring/probe", "ringer", "gossip", "ring"]):
        story.tell(line(number, thing))
    assert [one.event for one in story.of("ring")] == [0, 1, 4]
    assert [one.event for one in story.of("ring/probe")] == [1]


def test_reading_while_it_grows() -> None:
    """Whoever reads has what was there when it began."""
    story = Story(10)
    story.tell(line(1))
    for one in story:
        story.tell(one)
    assert story.told == 2


def test_a_line_as_a_person_reads_it() -> None:
    """Seconds of this peer, the event, its cause, the thing."""
    shown = str(Line(12_000_350, 4711, "p3#209", "ring", "successor p9 -> p4"))
    assert shown == "12.000350 #4711 p3#209 ring: successor p9 -> p4"
    assert str(Line(0, 1, "", "ring", "up")) == "0.000000 #1 - ring: up"
