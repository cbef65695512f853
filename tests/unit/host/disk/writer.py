"""A process that writes to a store until it is killed, and says what was acknowledged.

Each batch has three keys with one number; keys of odd numbers are removed again in the next batch.
"""

import sys
from pathlib import Path

from shoal.host.disk.store import Change, Store

__all__ = ["changes_of", "main"]


def changes_of(number: int) -> list[Change]:
    """What batch `number` writes."""
    value = b"%d" % number * (number % 50 + 1)
    found: list[Change] = [("a", value), (f"b{number % 7}", value), (f"c{number}", value)]
    if number % 2 == 0:
        found.append((f"c{number - 1}", None))
    return found


def main() -> None:
    """Write batch after batch from the number given."""
    store = Store(Path(sys.argv[1]), log_bytes_max=2_000)
    number = int(sys.argv[2])
    while True:
        number += 1
        store.write(changes_of(number))
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
