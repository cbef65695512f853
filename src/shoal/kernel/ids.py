"""Names, keys and the identity of tuples.

A stream's *name* is the canonical text of how it is derived; its *key* is the SHA-1 of the name.
An *instance* is the identity of a component whoever owns it; it names a table, so it is safe as
a file name. A tuple's `_id` is (commit, ordinal) in one integer, unique in its source stream.
"""

import hashlib
import re

from shoal.kernel.errors import LocalError, UserError

__all__ = [
    "ORDINAL_BITS",
    "STEP_MAX",
    "check_name",
    "instance_of",
    "key_of",
    "tuple_id",
]

#: Bits of `_id` that number the tuples of one commit: 34 billion, far above any step.
ORDINAL_BITS = 35
#: Steps that fit beside the ordinal in 63 bits: eight years at one step a second.
STEP_MAX = (1 << (63 - ORDINAL_BITS)) - 1

_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")


def check_name(kind: str, name: str) -> str:
    """The name in lower case if it can name a stream or a query, else an error that says why."""
    lowered = name.lower()
    if not _NAME.fullmatch(lowered):
        raise UserError(
            f"{kind} name {name!r} cannot be used",
            detail="a name has 1 to 63 letters, digits and underscores and starts with a letter",
            hint="letters are not told apart by case; choose a name such as hot_meters",
        )
    return lowered


def key_of(canonical_name: str) -> str:
    """The key of a canonical name: 40 hexadecimal digits."""
    return hashlib.sha1(canonical_name.encode(), usedforsecurity=False).hexdigest()


def instance_of(kind: str, canonical_name: str) -> str:
    """The instance that runs this canonical name, such as `select-3f2a91c04d1e`."""
    return f"{kind}-{key_of(canonical_name)[:12]}"


def tuple_id(*, step: int, ordinal: int) -> int:
    """The identity of one tuple of a source stream."""
    if not 0 <= step <= STEP_MAX or not 0 <= ordinal < 1 << ORDINAL_BITS:
        raise LocalError(
            "tuple identity out of range",
            detail=f"step {step} of at most {STEP_MAX}, ordinal {ordinal}",
            hint="bound the step: fewer or smaller files at once",
        )
    return step << ORDINAL_BITS | ordinal
