"""Commands about hosts and keys: what a person sees, and the exit codes that a script sees."""

import asyncio
import contextlib
import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.cli.main import main
from shoal.host.console.lines import ask
from shoal.host.logs import Log
from shoal.host.loop import Host
from shoal.host.run import Settings, serve
from shoal.kernel.errors import LocalError, ShoalError, StorageError, UserError

pytestmark = pytest.mark.slow


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    """The exit code of `shoal words`."""
    monkeypatch.setattr(sys, "argv", ["shoal", *words])
    with pytest.raises(SystemExit) as raised:
        main()
    return int(raised.value.code or 0)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """The home of a host that runs, in a thread of its own."""
    folder = tmp_path / "p1"
    ready = threading.Event()

    def up(host: Host) -> None:
        ready.set()

    def live() -> None:
        log = Log(lambda line: None, peer="p1")
        asyncio.run(serve(Settings(name="p1", home=folder), log, ready=up))

    thread = threading.Thread(target=live)
    thread.start()
    assert ready.wait(30)
    yield folder
    with contextlib.suppress(UserError):  # the test may have stopped it
        ask(folder, {"ask": "stop"})
    thread.join(30)


def test_asked_for_people(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    def said(*words: str) -> str:
        assert run(monkeypatch, *words, "--home", str(home)) == 0
        return capsys.readouterr().out

    assert "p1 at 127.0.0.1:" in said("status")
    assert "without keys: this machine only" in said("status")
    assert said("peers") == ""
    assert "predecessor" in said("ring")
    assert said("ring", "--all").count("\n") == 1
    assert "keeper         " in said("lookup", "meters")
    assert "ring: begins a ring" in said("trace")
    assert said("trace", "--thing", "nothing") == ""
    said("down")


def test_asked_for_programs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    found = {}
    for words in (["status"], ["peers"], ["ring"], ["ring", "--all"], ["lookup", "a"], ["trace"]):
        assert run(monkeypatch, *words, "--home", str(home), "--json") == 0
        out = capsys.readouterr().out
        assert out.count("\n") == 1
        found[" ".join(words)] = json.loads(out)
    assert found["status"]["me"]["name"] == "p1"
    assert found["peers"] == []
    assert found["ring --all"] == [found["status"]["me"]]
    assert found["lookup a"]["owner"] == found["status"]["me"]
    assert found["lookup a"]["records"] == []
    assert found["trace"]["peer"] == "p1"


def test_the_usual_home(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    """Found by name, or alone; where there are several, one has to say which."""
    user = home.parent / "user"
    (user / ".shoal").mkdir(parents=True)
    (user / ".shoal" / "p1").symlink_to(home)
    monkeypatch.setenv("HOME", str(user))
    assert run(monkeypatch, "status", "--name", "p1") == 0
    assert run(monkeypatch, "status") == 0
    assert run(monkeypatch, "trace", "p1", "--name", "p1") == 0
    other = user / ".shoal" / "p2"
    other.mkdir()
    (other / "console.sock").touch()
    capsys.readouterr()
    assert run(monkeypatch, "status") == 2
    assert "2 hosts" in capsys.readouterr().err


def test_nobody_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(monkeypatch, "peers", "--home", str(tmp_path)) == 2
    assert "no host answers" in capsys.readouterr().err


def test_keys_from_the_first_to_the_last(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = str(tmp_path / "k")
    assert run(monkeypatch, "keys", "init", folder) == 0
    assert run(monkeypatch, "keys", "issue", "p1", "--keys", folder, "--days", "9") == 0
    assert str(tmp_path / "k" / "peers" / "p1") in capsys.readouterr().out
    assert run(monkeypatch, "keys", "revoke", "p1", "--keys", folder) == 0
    assert "1 certificates of p1 revoked" in capsys.readouterr().out
    assert run(monkeypatch, "keys", "revoke", "p1", "--keys", folder) == 0
    assert "revoked before" in capsys.readouterr().out
    assert run(monkeypatch, "keys", "revoke", "p2", "--keys", folder) == 2
    assert run(monkeypatch, "keys", "init", folder) == 2
    assert "already has an authority" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (None, 0),
        (UserError("say it differently", hint="so"), 2),
        (StorageError("the disk is full"), 3),
        (LocalError("a defect"), 70),
        (RuntimeError("an unknown defect"), 70),
        (KeyboardInterrupt(), 130),
    ],
)
def test_exit_codes_of_up(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    error: BaseException | None,
    code: int,
) -> None:
    seen: list[Settings] = []

    async def end(settings: Settings, log: Log) -> None:
        seen.append(settings)
        if error is not None:
            raise error

    monkeypatch.setattr("shoal.host.run.serve", end)
    words = ["--join", "a:1", "--join", "b:2", "--offer", "Op.x", "--keys", "k", "--log-json"]
    home = ["--home", str(tmp_path)]
    assert run(monkeypatch, "up", "--name", "p2", *home, *words) == code
    said = capsys.readouterr().err
    assert seen[0] == Settings(
        name="p2", home=tmp_path, join=("a:1", "b:2"), offers=("Op.x",), keys=Path("k")
    )
    if isinstance(error, ShoalError):
        assert f"error: {error.what}" in said
