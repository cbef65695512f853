"""Addresses as people write them: `host:port`, `[::1]:port`.

Not here   looking names up: that is done at each dial, since answers change.
"""

import ipaddress

from shoal.kernel.errors import UserError

__all__ = ["ADDRESS_CHARACTERS_MAX", "join", "loopback", "split", "unspecified"]

ADDRESS_CHARACTERS_MAX = 260


def split(text: str) -> tuple[str, int]:
    """Host and port.

    >>> split("127.0.0.1:7700"), split("[::1]:0")
    (('127.0.0.1', 7700), ('::1', 0))
    """
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    bare = host[1:-1] if bracketed else host
    fine = colon and bare and port.isascii() and port.isdigit() and int(port) < 1 << 16
    if not fine or len(text) > ADDRESS_CHARACTERS_MAX or (":" in bare and not bracketed):
        raise UserError(
            f"address {text[:80]!r} cannot be read",
            hint="write host:port, such as 10.0.0.7:7700 or [::1]:7700",
        )
    return bare, int(port)


def join(host: str, port: int) -> str:
    """Host and port as one text.

    >>> join("::1", 7700)
    '[::1]:7700'
    """
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def unspecified(host: str) -> bool:
    """Whether it stands for every address of the machine, so that nobody can dial it."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False
