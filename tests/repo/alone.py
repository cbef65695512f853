"""The pure side alone: started by test_alone.py in a fresh interpreter, with imports refused.

Imports every module of the pure side that is named on the command line, then lets whole peers form
a ring, look a key up, publish a record and broadcast a fact. An import of what the pure side may
not have ends the interpreter with a traceback that says who wanted it.
"""

import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType

REFUSED = (
    *("pyspark", "py4j", "deltalake", "pyarrow", "sqlglot", "typer", "rich"),
    *("asyncio", "socket", "ssl", "select", "selectors", "http", "urllib.request"),
    *("threading", "queue", "concurrent", "multiprocessing", "subprocess", "signal"),
    *("tempfile", "shutil", "glob", "logging", "secrets", "ctypes", "mmap", "fcntl"),
)


class Refuse(importlib.abc.MetaPathFinder):
    """Finds what is refused, to say so."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if any(name == one or name.startswith(f"{one}.") for one in REFUSED):
            raise ImportError(f"{name} is refused: the pure side does without it")
        return None


def main(names: Sequence[str]) -> None:
    """Import everything, then live a little."""
    for name in REFUSED:  # what the interpreter's own start needed is refused to us all the same
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, Refuse())
    for name in names:
        importlib.import_module(name)
    live()
    sys.stdout.write(f"{len(names)} modules\n")


def live() -> None:
    """Five peers, a look-up, a fact that all have."""
    from shoal.control.gossip.messages import Broadcast, FactList, Facts
    from shoal.control.ring.messages import Located, Lookup
    from shoal.kernel.keys import key_of_name
    from shoal.kernel.time import SECOND
    from tests.perfect import PerfectNetwork

    net = PerfectNetwork(seed=1)
    names = [f"p{number}" for number in range(5)]
    for name in names:
        net.start(name, *names[: name != "p0"])
        net.run_for(SECOND)
    net.run_for(20 * SECOND)
    found = [net.ask(name, Lookup(key_of_name("meters"))) for name in names]
    owners = {one.owner for one in found if isinstance(one, Located) and one.owner}
    assert (len(found), len(owners)) == (5, 1), found
    net.ask("p3", Broadcast("query", "q1", b"text"))
    net.run_for(5 * SECOND)
    for name in names:
        facts = net.ask(name, Facts("query"))
        assert isinstance(facts, FactList)
        assert len(facts.facts) == 1, facts


if __name__ == "__main__":
    main(sys.argv[1:])
