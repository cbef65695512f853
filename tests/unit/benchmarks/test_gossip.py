"""A small run of the benchmark of gossip; and its page says what is kept of the whole one."""

import json
import re

import pytest

from benchmarks.gossip.__main__ import main as gossip
from benchmarks.harness import parse_options
from tests.repo.source import ROOT

RESULT = ROOT / "benchmarks" / "results" / "gossip.json"
PAGE = ROOT / "docs" / "protocols" / "gossip.md"
#: What the page calls a method, and what the benchmark does.
METHODS = {
    "Shoal": "shoal",
    "m fingers": "m fingers",
    "m fingers and predecessor": "m fingers+pred",
    "m_OPT, sender's targets left out (b)": "m_OPT (b)",
    "m_OPT, targets of the path left out (c)": "m_OPT (c)",
    "m_OPT, literally (a)": "m_OPT (a)",
    "m/2, random": "m/2 random",
    "successor and predecessor": "succ+pred",
    "partition without repair": "partition, no repair",
}


@pytest.mark.slow
def test_gossip(capsys: pytest.CaptureFixture[str]) -> None:
    assert gossip(parse_options("gossip", "?", ["--quick"])) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["reached"] == dict.fromkeys(("0", "5", "10", "20", "40"), 1.0)
    assert found["messages_1024"] == 127  # of 128 peers, since this is a quick run
    assert found["hops_1024"] <= 7
    assert found["methods"]["shoal"]["messages"] < found["methods"]["m fingers"]["messages"]


def test_the_page_about_gossip_has_the_figures_that_are_kept() -> None:
    """One run, one statistic: whoever keeps another result brings the page along."""
    kept, page = json.loads(RESULT.read_text()), PAGE.read_text()
    for title, method in METHODS.items():
        figures = kept["methods"][method]
        cells = [f"{figures['messages']:,.0f}", f"{figures['hops']:g}"]
        cells += [f"{figures[f'reached_{percent}']:.4f}" for percent in (5, 10, 20, 40)]
        assert f"| {title} | {' | '.join(cells)} |" in page
    dead = (5, 10, 20, 40)
    text = re.sub(r"\s+", " ", page)
    counts = [f"{kept['keys'][f'messages_{percent}_dead']:,.0f}" for percent in dead]
    assert f"{', '.join(counts[:-1])} and {counts[-1]} messages" in text
    waits = [f"{kept['keys'][f'seconds_{percent}_dead']:.1f}" for percent in dead]
    assert f"after {', '.join(waits[:-1])} and {waits[-1]} s" in text
