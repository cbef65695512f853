"""What a running host answers, with the real machines."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from shoal.host.console.lines import Request
from shoal.host.console.questions import Questions, key_from, offer_of, plain
from shoal.host.logs import Log
from shoal.host.loop import Host
from shoal.host.run import Settings, serve
from shoal.kernel.errors import UserError
from shoal.kernel.keys import Contact, key_of_name
from tests.unit.host.setting import FAST, eventually


def test_keys_as_people_write_them() -> None:
    assert key_from("meters") == key_of_name("meters")
    assert key_from("0" * 39 + "f") == bytes(19) + b"\x0f"
    assert key_from("x" * 40) == key_of_name("x" * 40)
    with pytest.raises(UserError):
        key_from("")


def test_plain_data() -> None:
    contact = Contact("p1", "127.0.0.1:1", 2)
    assert plain({b"\x01": (contact, None, [1.5, "a"])}) == {
        "01": [{"name": "p1", "address": "127.0.0.1:1", "incarnation": 2}, None, [1.5, "a"]]
    }


def test_an_offer_has_the_key_of_its_operator() -> None:
    me = Contact("p1", "127.0.0.1:1", 2)
    assert offer_of(me, "Encryption.AES").key == key_of_name("Encryption.AES")
    with pytest.raises(UserError):
        offer_of(me, "")


@pytest.mark.slow
def test_all_questions_of_two_hosts(tmp_path: Path) -> None:
    """One mesh without keys; every question there is."""

    async def scene() -> None:
        hosts: list[Host] = []
        tasks = []
        for name in ("p1", "p2"):
            join = tuple(host.peer.me.address for host in hosts)
            wanted = Settings(name=name, home=tmp_path / name, join=join, host=FAST)
            ready: asyncio.Future[Host] = asyncio.get_running_loop().create_future()
            log = Log(lambda line: None, peer=name)
            tasks.append(asyncio.create_task(serve(wanted, log, ready=ready.set_result)))
            hosts.append(await ready)
        try:
            await ask_everything(hosts)
        finally:
            for host in hosts:
                host.stop()
            await asyncio.gather(*tasks)

    asyncio.run(scene())


async def ask_everything(hosts: list[Host]) -> None:
    one, two = hosts
    questions = Questions(one, None)

    async def ask(what: str, **fields: Any) -> Any:
        return await questions.answer(Request(what, **fields))

    me, other = plain(one.peer.me), plain(two.peer.me)

    async def walked() -> list[str]:
        return [contact["name"] for contact in await ask("walk")]

    async with asyncio.timeout(60):
        while await walked() != ["p1", "p2"]:
            await asyncio.sleep(0.05)
    status = await ask("status")
    assert status["me"] == me
    assert status["mesh"] is None
    assert [link["name"] for link in status["net"]["links"]] == ["p2"]
    assert await ask("peers") == [{**other, "connected": True}]
    assert (await ask("ring"))["view"]["predecessor"] == other
    assert (await ask("lookup", key="p2"))["owner"] == other
    assert (await ask("offer", key="Op.x"))["waiting"] == 0
    (record,) = await ask("records", key="Op.x")
    assert (record["kind"], record["owner"], record["operator"]) == ("OfferRecord", me, "Op.x")
    assert (await ask("withdraw", key="Op.x"))["withdrawn"] == 1
    assert await ask("records", key="Op.x") == []
    story = await ask("trace", lines=2)
    assert story["peer"] == "p1"
    assert len(story["lines"]) == 2
    assert (await ask("trace", thing="none"))["lines"] == []
    theirs = await ask("trace", peer="p2")
    assert theirs["peer"] == "p2"
    assert [line for line in theirs["lines"] if "joins" in line["what"]]
    with pytest.raises(UserError, match="not in the ring"):
        await ask("trace", peer="p3")
    with pytest.raises(UserError, match="not known") as raised:
        await ask("everything")
    assert "lookup" in raised.value.hint
    assert await ask("stop") == {}
    await eventually(lambda: one.stopping)
