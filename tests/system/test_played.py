"""The same scenario file that the simulator plays, played by processes."""

from pathlib import Path

import pytest

from shoal.kernel.errors import UserError
from shoal.sim.runs.scenario import read, read_file
from tests.repo.source import ROOT
from tests.system.mesh import Mesh
from tests.system.played import Played, play


@pytest.mark.slow
def test_a_scenario_on_real_hosts(tmp_path: Path) -> None:
    """Crash, empty disk, pause, leave, join; then everything that is promised holds."""
    play(read_file(ROOT / "scenarios" / "processes.toml"), 1, tmp_path)


def test_what_cannot_be_done_to_processes_is_refused(tmp_path: Path) -> None:
    text = 'title = "x"\n[[fault]]\nkind = "partition"\nat_s = [1]\n'
    with Mesh.of(tmp_path, []) as mesh, pytest.raises(UserError, match="Partition"):
        Played(read(text, name="x"), 1, mesh)
