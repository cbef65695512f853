"""How people and programs on this machine talk to a running host: JSON lines over a local socket.

    {"ask": "lookup", "key": "meters"}
    {"ok": {"key": "...", "owner": {"name": "p7", ...}, "hops": 3}}
    {"error": {"what": "...", "detail": "...", "hint": "..."}}

The socket lies in the host's home, mode 0600: who may use it is who may use the home. Answers are
plain data; what they hold is in `console/questions.py`.
"""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from shoal.host.config import HostConfig
from shoal.host.net.listener import accept
from shoal.kernel.errors import ShoalError, StorageError, UserError

__all__ = ["SOCKET", "Console", "Request", "ask"]

SOCKET: Final = "console.sock"
#: What the system allows for the path of a local socket, with the byte that ends it.
_PATH_BYTES_MAX = 107
_ANSWER_BYTES_MAX = 64 << 20
#: How long to wait when the process has no descriptor left for one more caller.
_NO_DESCRIPTOR_S = 0.5


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What somebody wants to know; which fields count depends on `ask`."""

    ask: str
    key: str = ""
    peer: str = ""
    thing: str = ""
    lines: int = 0


Answerer = Callable[[Request], Awaitable[Any]]


class Console:
    """The local socket of a host."""

    def __init__(self, home: Path, answer: Answerer, config: HostConfig) -> None:
        self._path = home / SOCKET
        self._answer = answer
        self._config = config
        self._clients: dict[asyncio.Task[None], None] = {}
        self._socket: socket.socket | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen. A socket file that an earlier life left behind is replaced."""
        _check_length(self._path)
        self._path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.setblocking(False)
            self._socket.bind(str(self._path))
            self._path.chmod(0o600)
            self._socket.listen()
        except OSError as error:
            self._socket.close()
            raise StorageError(
                f"cannot make the socket {self._path}",
                detail=str(error.strerror),
                hint="the home must be on a file system that has sockets; give another --home",
            ) from error
        self._task = asyncio.create_task(self._accept_all(self._socket), name="console")

    async def stop(self) -> None:
        """Hang up, also on who has connected just now."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._socket is not None:
            self._socket.close()
        await asyncio.sleep(0)  # so that every caller's task has begun, and owns its socket
        for task in self._clients:
            task.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)
        self._path.unlink(missing_ok=True)

    async def _accept_all(self, listening: socket.socket) -> None:
        """By hand, not by asyncio's server: that forgets callers who come while it closes."""
        while True:
            try:
                connection, _ = await accept(listening)
            except OSError:
                await asyncio.sleep(_NO_DESCRIPTOR_S)
                continue
            task = asyncio.create_task(self._client(connection), name="caller")
            self._clients[task] = None
            task.add_done_callback(self._clients.pop)

    async def _client(self, connection: socket.socket) -> None:
        limit = self._config.control_line_bytes_max
        writer: asyncio.StreamWriter | None = None
        try:
            reader, writer = await asyncio.open_unix_connection(sock=connection, limit=limit)
            if len(self._clients) > self._config.control_clients_max:
                writer.write(_failed(UserError("host has too many callers", hint="try again")))
            else:
                await self._converse(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass  # the caller has gone, or the host ends
        finally:
            if writer is None:
                connection.close()
            else:
                writer.close()
                with contextlib.suppress(OSError, asyncio.CancelledError):
                    await writer.wait_closed()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer line after line."""
        while True:
            try:
                line = await reader.readline()
            except ValueError:
                writer.write(_failed(UserError("question is too long")))
                break
            if not line:
                break
            writer.write(await self._reply(line))
            await writer.drain()

    async def _reply(self, line: bytes) -> bytes:
        try:
            request = msgspec.json.decode(line, type=Request)
        except msgspec.DecodeError as error:
            return _failed(UserError("question cannot be read", detail=str(error)))
        try:
            return msgspec.json.encode({"ok": await self._answer(request)}) + b"\n"
        except ShoalError as error:
            return _failed(error)


def ask(home: Path, request: Mapping[str, Any], *, wait_s: float = 60.0) -> Any:
    """Ask the host that runs in this home."""
    path = home / SOCKET
    _check_length(path)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(wait_s)
            connection.connect(str(path))
            connection.sendall(msgspec.json.encode(request) + b"\n")
            with connection.makefile("rb") as answers:
                line = answers.readline(_ANSWER_BYTES_MAX)
    except OSError as error:
        raise UserError(
            f"no host answers in {home}",
            detail=str(error.strerror or error).lower(),
            hint=f"start one: `shoal up --home {home}`, or name its home with --home",
        ) from error
    if not line.endswith(b"\n"):
        raise UserError(f"host in {home} ended before it answered")
    answer = msgspec.json.decode(line)
    if "error" in answer:
        raise UserError(**answer["error"])
    return answer["ok"]


def _failed(error: ShoalError) -> bytes:
    parts = {"what": error.what, "detail": error.detail, "hint": error.hint}
    return msgspec.json.encode({"error": parts}) + b"\n"


def _check_length(path: Path) -> None:
    if len(bytes(path.absolute())) > _PATH_BYTES_MAX:
        raise UserError(
            f"path of the home is too long for a socket: {path}",
            detail=f"the system allows {_PATH_BYTES_MAX} bytes",
            hint="give a shorter --home",
        )
