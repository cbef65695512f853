"""A small run of the benchmark of the ring: figures do not count, what must be right is right."""

import json
import math

import pytest

from benchmarks.ring.__main__ import main as ring


@pytest.mark.slow
def test_ring(capsys: pytest.CaptureFixture[str]) -> None:
    assert ring(["--quick"]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["lookup_correct"] == 1.0
    assert found["records_lost"] == found["records_doubled"] == 0
    for key in ("peers", "hops_mean", "recover_s", "events_per_s", "wall_s"):
        assert found[key] == found["keys"][key]
    assert found["events_per_wall_s"] > 0
    assert 0 < found["hops_mean_formed"] <= 0.5 * math.log2(30) + 1
