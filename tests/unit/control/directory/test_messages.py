"""Messages survive the wire; records, identities and versions are what the others rely on."""

import pytest
from msgspec import Struct

from shoal.control.directory.messages import (
    MESSAGES,
    QUESTIONS,
    SignatureRecord,
    Version,
    ident_of,
)
from shoal.kernel.keys import key_of_name
from shoal.wire.codec import Codec
from shoal.wire.frames import FrameReader
from tests.samples import samples
from tests.unit.control.directory.pieces import contact, offer, stream


@pytest.mark.parametrize("kind", MESSAGES.values(), ids=lambda kind: kind.__name__)
def test_a_message_survives_the_wire(kind: type[Struct]) -> None:
    codec = Codec(MESSAGES)
    for _, message in samples(kind):
        (one,) = FrameReader().feed(codec.encode(message, 7))
        assert codec.decode(one) == message


def test_every_tag_is_the_directorys() -> None:
    assert all(tag >> 8 == 2 for tag in MESSAGES)
    assert len(QUESTIONS) == 5


def test_an_identity_is_of_a_thing_and_its_owner_whatever_its_load() -> None:
    one, other = offer(load=0.1), offer(load=0.9, life=2)
    assert ident_of(one) == ident_of(other)
    signature = SignatureRecord(key_of_name("aes"), contact("p5"), "select-1")
    records = (one, offer("p6"), offer(operator="des"), stream(), stream("p6"), signature)
    assert len(dict.fromkeys(map(ident_of, records))) == len(records)
    assert [record.thing for record in (one, stream(), signature)] == [
        "aes",
        "ingest-1",
        "select-1",
    ]


def test_a_later_life_is_newer_than_any_counter_of_an_earlier() -> None:
    versions = [Version(1, 1, 1), Version(1, 9, 1), Version(1, 9, 9), Version(2, 1, 1)]
    backwards = versions[::-1]
    assert sorted(backwards) == versions
