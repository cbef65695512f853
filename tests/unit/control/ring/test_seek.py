"""Look-ups, step by step."""

from shoal.control.ring.config import RingConfig
from shoal.control.ring.desk import Desk
from shoal.control.ring.messages import Step, Stepped
from shoal.control.ring.seek import Search, Seeker
from shoal.kernel.effects import Send
from shoal.kernel.keys import Contact, ahead
from shoal.kernel.rng import Rng
from shoal.kernel.time import SECOND
from tests.unit.control.ring.few import contact, contacts

RING = contacts(12)
ME = RING[0]


def seeker() -> tuple[Desk, Seeker]:
    desk = Desk(ME, RingConfig(successors_max=3), Rng(1))
    desk.table.set_predecessor(RING[-1])
    desk.table.set_successors(RING[1:4])
    return desk, Seeker(desk)


def asked(desk: Desk) -> list[tuple[str, str]]:
    """Whom the last step asked."""
    found = [(e.to.name, e.to.address) for e in desk.out if isinstance(e, Send)]
    desk.out.clear()
    return found


def search_of(desk: Desk, to: Contact) -> Search:
    """The search whose step to this peer is under way; the step is over now."""
    for number in range(1, 100):
        request = desk.requests.close(number, to)
        if request is not None:
            assert isinstance(request.about, Search)
            return request.about
    raise AssertionError(f"{to.name} was not asked")


def test_own_keys_and_the_first_successors_need_no_message() -> None:
    desk, made = seeker()
    made.begin("find", ME.key, "a", 0)
    made.begin("find", RING[1].key, "b", 0)
    assert [search.owner for search in made.done] == [ME, RING[1]]
    assert [search.hops for search in made.done] == [0, 0]
    assert desk.out == []
    assert made.active == 0


def test_the_closest_is_asked_and_its_better_ones_after_it() -> None:
    desk, made = seeker()
    made.begin("find", RING[8].key, "a", 0)
    assert asked(desk) == [(RING[3].name, RING[3].address)]
    search = search_of(desk, RING[3])
    made.stepped(RING[3], Stepped(1, None, (), (RING[7], RING[6], RING[2])), search, 5)
    assert asked(desk)[0][0] in (RING[7].name, RING[6].name)
    assert search.hops == 2
    made.stepped(RING[7], Stepped(2, RING[8], (RING[9],), ()), search, 6)
    assert made.done == [search]
    assert (search.owner, search.teller) == (RING[8], RING[7])


def test_who_does_not_come_closer_is_not_asked() -> None:
    desk, made = seeker()
    made.begin("find", RING[8].key, "a", 0)
    asked(desk)
    search = search_of(desk, RING[3])
    made.stepped(RING[3], Stepped(1, None, (), (RING[9], RING[1])), search, 5)
    assert RING[9].name not in [name for name, _ in asked(desk)]


def test_a_silent_peer_is_asked_twice_and_then_another() -> None:
    desk, made = seeker()
    made.begin("find", RING[8].key, "a", 0)
    assert asked(desk) == [(RING[3].name, RING[3].address)]
    search = search_of(desk, RING[3])
    made.silent(search, RING[3], SECOND)
    assert asked(desk) == [(RING[3].name, RING[3].address)]
    made.silent(search_of(desk, RING[3]), RING[3], 2 * SECOND)
    assert asked(desk) == [(RING[2].name, RING[2].address)]
    assert search.hops == 2


def test_an_owner_that_was_given_up_here_gives_way_to_who_is_behind_it() -> None:
    desk, made = seeker()
    desk.watch.meet(RING[8], 0)
    desk.watch.lose(RING[8].name, 0)
    made.begin("find", RING[8].key, "a", 0)
    search = search_of(desk, RING[3])
    made.stepped(RING[3], Stepped(1, RING[8], (RING[9],), ()), search, 5)
    assert search.owner == RING[9]


def test_an_answer_comes_even_if_nobody_answers() -> None:
    desk, made = seeker()
    made.begin("find", RING[8].key, "a", 0)
    now = 0
    for _ in range(100):
        due = desk.requests.next_due()
        if due is None:
            break
        now = due
        for request in desk.requests.take_due(now):
            assert isinstance(request.about, Search)
            made.silent(request.about, request.to, now)
    assert [search.owner for search in made.done] == [None]
    assert now <= desk.config.lookup_timeout


def test_a_place_is_not_looked_for_beyond_who_knows_me() -> None:
    desk, made = seeker()
    made.begin_through("place", ahead(ME.key, 0), None, [contact("x")], 0)
    search = search_of(desk, contact("x"))
    made.stepped(contact("x"), Stepped(1, None, (), (ME,)), search, 1)
    assert made.done == [search]
    assert search.met_me
    assert search.owner is None


def test_a_joiner_takes_the_ways_in_of_another() -> None:
    desk, made = seeker()
    made.begin_through("place", ahead(ME.key, 0), None, [Contact("", "x:1", 0)], 0)
    assert asked(desk) == [("", "x:1")]
    search = search_of(desk, contact("x"))
    made.failed(search, ["x:1", ME.address, "y:1"], 1)
    assert asked(desk) == [("", "y:1")]


def test_leaving_ends_what_is_under_way() -> None:
    _, made = seeker()
    made.begin("find", RING[8].key, "a", 0)
    assert made.is_seeking("find")
    assert len(made.give_up()) == 1
    assert made.active == 0


def test_steps_of_others_are_answered_by_rights_first_and_hints_after() -> None:
    desk, made = seeker()

    def answer(key: bytes) -> Stepped:
        desk.out.clear()
        made.answer(RING[5], Step(9, key))
        (sent,) = desk.out
        assert isinstance(sent, Send)
        assert isinstance(sent.message, Stepped)
        return sent.message

    assert answer(ME.key).owner == ME
    assert answer(RING[1].key).owner == RING[1]
    deep = answer(RING[3].key)
    assert deep.owner is None
    assert deep.closer == (RING[2], RING[1])
    desk.watch.meet(RING[2], 0)
    desk.watch.lose(RING[2].name, 0)
    assert answer(RING[3].key).closer == (RING[1],)
