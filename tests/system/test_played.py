"""The same scenario file that the simulator plays, played by processes."""

import signal
from pathlib import Path
from typing import Any

import pytest

from shoal.kernel.errors import UserError
from shoal.sim.runs.faults import Crash
from shoal.sim.runs.many import scenario_files
from shoal.sim.runs.scenario import read, read_file
from tests.repo.source import ROOT
from tests.system.mesh import Mesh, ring_order
from tests.system.played import Played, main, play

#: What of each file of the repository processes cannot play; nothing: they play the file.
ODD = {
    "apart": "fault partition, fault isolate, machines of its own, config of its own",
    "away": "config of its own",
    "blackout": "crash with writes torn",
    "broadcasts": "join after Broadcast, crash after Broadcast, config of its own",
    "churn": "config of its own",
    "clocks": "fault clock",
    "everything": "crash with writes torn, fault slow, fault swizzle, fault clog, fault partition, "
    "fault isolate, fault clock, fault weather, weather of its own",
    "loss": "fault weather, weather of its own",
    "neighbours": "config of its own",
    "old_disks": "crash with writes torn, crash after Withdraw",
    "one_way": "fault partition, fault isolate, fault clog",
    "partition": "fault partition",
    "pauses": "fault slow",
    "processes": "",
    "publishing": "crash after Publish, crash after Withdraw",
    "rolling": "",
    "stable": "weather of its own",
    "swizzle": "fault swizzle, fault clog",
    "transit_stub": "weather of its own, topology of its own, config of its own",
    "tree": "fault partition, topology of its own",
    "wiped": "fault corrupt, config of its own",
    "writes": "crash after write, crash with writes torn, crash with writes kept, "
    "config of its own",
}
FILES = scenario_files(ROOT / "scenarios")


class NoProcess:
    """A host that is only written down: signals, and a disk that changes with each life."""

    def __init__(self, folder: Path, name: str, life: int) -> None:
        self.home = folder / name
        self.home.mkdir(exist_ok=True)
        self.signals: list[signal.Signals] = []
        self.child = self
        self.files = {"log": f"life {life}".encode()}

    def signal(self, number: signal.Signals) -> None:
        self.signals.append(number)

    def wait(self, _wait_s: float) -> int:
        return 0

    def disk(self) -> dict[str, bytes]:
        return dict(self.files)

    def put_disk(self, files: dict[str, bytes]) -> bool:
        differs = files != self.files
        self.files = files
        return differs


class NoMesh:
    """Hosts that are only written down."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.hosts: dict[str, NoProcess] = {}
        self.started: list[str] = []

    def start(self, name: str, *_words: str, join: tuple[str, ...] = ()) -> None:
        assert name not in join
        self.started.append(name)
        self.hosts[name] = NoProcess(self.folder, name, len(self.started))

    def address(self, name: str) -> str:
        return name


def struck(folder: Path, text: str, peers: int = 5) -> tuple[Played, NoMesh]:
    """What these faults do to hosts that are only written down."""
    mesh: Any = NoMesh(folder)
    scenario = read(f'title = "x"\npeers = {peers}\nfaults_s = 1\nrepair_s = 0\n{text}', name="x")
    run = Played(scenario, 1, mesh)
    for _ in range(peers):
        mesh.start(run._new_name())
        run.living.append(mesh.started[-1])
    run.storm()
    return run, mesh


@pytest.mark.slow
def test_a_scenario_on_real_hosts(tmp_path: Path) -> None:
    """Crash, empty disk, old disk, pause, leave, join; then everything that is promised holds."""
    happened = play(read_file(ROOT / "scenarios" / "processes.toml"), 1, tmp_path)
    assert happened["an old disk that differs"] == 1


def test_no_file_of_the_repository_is_left_out() -> None:
    assert [path.stem for path in FILES] == sorted(ODD)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_cannot_be_done_to_processes_is_refused(path: Path, tmp_path: Path) -> None:
    """Nothing that a file asks for is silently played as something else."""
    scenario, odd = read_file(path), ODD[path.stem]
    with Mesh.of(tmp_path, []) as mesh:
        if not odd:
            Played(scenario, 1, mesh)
            return
        with pytest.raises(UserError) as refused:
            Played(scenario, 1, mesh)
    assert refused.value.what == f"scenario {scenario.title!r} cannot be played by processes"
    assert refused.value.detail == f"it has: {odd}"
    assert "shoal sim" in refused.value.hint


def test_a_refusal_is_told_without_a_stack(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["played", str(ROOT / "scenarios" / "tree.toml")])
    assert main() == 2
    assert "it has: fault partition, topology of its own" in capsys.readouterr().err


def test_what_has_happened_is_counted_as_in_the_simulator(tmp_path: Path) -> None:
    """The names are those that files require."""
    churn = '[[fault]]\nkind = "churn"\nat_s = [0]\ncount = 3\n'
    run, _ = struck(tmp_path, f"peers_min = 1\n{churn}")
    assert run.probes["churn burst"] == 1
    pair = '[[fault]]\nkind = "crash"\nat_s = [0]\ncount = 2\nwho = "neighbours"\ndown_s = 0.01\n'
    run, mesh = struck(tmp_path, f"peers_min = 1\n{pair}")
    assert run.probes == {"crash, same disk": 2, "crash of 2 neighbours at once": 1}
    assert sorted(run.living) == sorted(mesh.hosts)
    around = ring_order(mesh.started[:5], mesh.started[5])
    assert mesh.started[6] in (around[1], around[-1])


def test_a_crash_with_an_old_disk_finds_an_older_one(tmp_path: Path) -> None:
    """The second life begins with the disk of the first; who had no copy keeps its own."""
    old = '[[fault]]\nkind = "crash"\ndown_s = 0.01\ndisk = "old"\nat_s = [0.0, 0.1, 0.2, 0.3]\n'
    run, mesh = struck(tmp_path, f"peers_min = 1\n{old}", peers=3)
    assert run.probes["crash, old disk"] == 4
    # Four crashes of three hosts: one of them had changed its disk since it was copied.
    assert run.probes["an old disk that differs"] >= 1
    mesh.start("late")
    run.living.append("late")
    run._lose("late", Crash(disk="old"), 1.0)
    assert run.probes["crash, same disk"] == 1
