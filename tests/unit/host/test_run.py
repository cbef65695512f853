"""What a person says about a host, and a whole host with the real machines."""

import asyncio
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shoal.control.directory.messages import Find, Found
from shoal.control.ring.messages import Located, Lookup
from shoal.host.disk.store import Store
from shoal.host.keys import authority
from shoal.host.logs import Log
from shoal.host.loop import Host
from shoal.host.run import Settings, serve
from shoal.kernel.errors import StorageError, UserError
from shoal.kernel.keys import key_of_name
from tests.unit.host.setting import FAST, eventually, running


def settings(home: Path, **changed: Any) -> Settings:
    return Settings(**{"name": "p1", "home": home, "host": FAST, **changed})


def run(wanted: Settings, act: Any = None) -> list[str]:
    """Run a real host until `act` is done; what it logged."""
    lines: list[str] = []

    async def scene() -> None:
        ready: asyncio.Future[Host] = asyncio.get_running_loop().create_future()
        log = Log(lines.append, peer=wanted.name, level="debug")
        task = asyncio.create_task(serve(wanted, log, ready=ready.set_result))
        await asyncio.wait([task, ready], return_when=asyncio.FIRST_COMPLETED)
        if not task.done() and act is not None:
            await act(await ready)
        if not task.done():
            ready.result().stop()
        await task

    asyncio.run(scene())
    return lines


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"name": "P 1"}, "name 'P 1' cannot be used"),
        ({"name": "P1"}, "capital letters"),
        ({"listen": "0.0.0.0:7700"}, "without keys"),
        ({"listen": "10.0.0.1:7700"}, "without keys"),
        ({"listen": "0.0.0.0:7700", "keys": Path("k")}, "others must be told one"),
        ({"listen": "nowhere"}, "cannot be read"),
        ({"join": ("127.0.0.1:0",)}, "has no port"),
        ({"advertise": "127.0.0.1:0"}, "has no port"),
    ],
)
def test_what_cannot_be(tmp_path: Path, changed: dict[str, Any], what: str) -> None:
    with pytest.raises(UserError, match=what) as raised:
        settings(tmp_path / "home", **changed).check()
    assert raised.value.hint
    with pytest.raises(UserError, match=what):
        run(settings(tmp_path / "home", **changed))
    assert not (tmp_path / "home").exists()


def test_what_others_are_told() -> None:
    settings(Path("x"), listen="0.0.0.0:1", keys=Path("k"), advertise="10.0.0.1:7700").check()
    settings(Path("x"), listen="[::1]:0").check()


@pytest.mark.slow
def test_a_whole_host_alone(tmp_path: Path) -> None:
    async def act(host: Host) -> None:
        located = await host.ask(Lookup(host.peer.me.key))
        assert isinstance(located, Located)
        assert located.owner == host.peer.me

    lines = run(settings(tmp_path / "home"), act)
    assert any("up address=127.0.0.1:" in line for line in lines)
    assert lines[-1].endswith("p1 ended")
    Store(tmp_path / "home").close()  # it has been given back


@pytest.mark.slow
def test_three_whole_hosts_with_keys(tmp_path: Path) -> None:
    keys = tmp_path / "k"
    authority.init(keys)
    for name in ("p1", "p2", "p3"):
        authority.issue(keys, name)

    async def scene() -> None:
        tasks, hosts = [], []
        for name in ("p1", "p2", "p3"):
            join = tuple(host.peer.me.address for host in hosts[:1])
            wanted = settings(tmp_path / name, name=name, keys=keys, join=join)
            ready: asyncio.Future[Host] = asyncio.get_running_loop().create_future()
            log = Log(lambda line: None, peer=name)
            tasks.append(asyncio.create_task(serve(wanted, log, ready=ready.set_result)))
            hosts.append(await ready)
        for host in hosts:
            for other in hosts:
                await eventually(lambda h=host, o=other: o.peer.me in _ring(h))
        for host in hosts:
            host.stop()
        await asyncio.gather(*tasks)

    asyncio.run(scene())


def _ring(host: Host) -> list[object]:
    view: Any = host.peer.view()["ring"]
    return [host.peer.me, view.predecessor, *view.successors]


@pytest.mark.slow
@pytest.mark.parametrize("trouble", ["store", "port", "keys"])
def test_a_start_that_fails_leaves_nothing_open(
    tmp_path: Path, trouble: str, descriptors_flat: None
) -> None:
    home = tmp_path / "home"

    async def scene() -> None:
        async with running(tmp_path / "other", "p2") as other:
            changed: dict[str, Any] = {}
            if trouble == "port":
                changed = {"listen": other.peer.me.address}
            elif trouble == "keys":
                changed = {"keys": tmp_path / "none"}
            else:
                (home / "store").mkdir(parents=True)
                (home / "store" / f"{3:016d}.log").write_bytes(b"")
            with pytest.raises((UserError, StorageError)):
                await serve(settings(home, **changed), Log(lambda line: None, peer="p1"))

    asyncio.run(scene())
    if trouble != "store":
        Store(home).close()


@pytest.mark.slow
def test_a_signal_stops_it(tmp_path: Path) -> None:
    async def act(host: Host) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await eventually(lambda: host.stopping)

    assert any("stopping" in line for line in run(settings(tmp_path / "home"), act))


@pytest.mark.slow
def test_a_certificate_that_ends_soon_is_said(tmp_path: Path) -> None:
    authority.init(tmp_path / "k")
    authority.issue(tmp_path / "k", "p1", days=5)
    lines = run(settings(tmp_path / "home", keys=tmp_path / "k"))
    assert any("error: certificate ends soon" in line for line in lines)


@pytest.mark.slow
def test_a_torn_write_is_said(tmp_path: Path) -> None:
    run(settings(tmp_path / "home"))
    (log,) = (tmp_path / "home" / "store").glob("*.log")
    log.write_bytes(log.read_bytes() + b"SHL1torn")
    assert any("torn write cut off bytes=8" in line for line in run(settings(tmp_path / "home")))


@pytest.mark.slow
def test_revocations_on_file_count_before_anybody_is_heard(tmp_path: Path) -> None:
    keys = tmp_path / "k"
    authority.init(keys)
    for name in ("p1", "p2"):
        authority.issue(keys, name)
    authority.revoke(keys, "p2")

    async def act(host: Host) -> None:
        assert host.trust is not None
        assert host.trust.number == 2

    slow_look = replace(FAST, keys_refresh_s=1_000.0)
    run(settings(tmp_path / "home", keys=keys, host=slow_look), act)
    store = Store(tmp_path / "home")
    assert "host/revocations" in store.values
    store.close()


@pytest.mark.slow
def test_offers_are_recorded(tmp_path: Path) -> None:
    owners = []

    async def act(host: Host) -> None:
        async with asyncio.timeout(30):
            while not owners:
                found = await host.ask(Find(key_of_name("Encryption.AES")))
                assert isinstance(found, Found)
                owners.extend(record.owner.name for record in found.records)

    run(settings(tmp_path / "home", offers=("Encryption.AES", "Encryption.RSA")), act)
    assert owners == ["p1"]
