"""Tasks that a host cannot live without: if one ends by an error, somebody is told.

asyncio keeps the error of a task until somebody asks for it. A host whose sweeper has died goes on
as if nothing had happened, and its connections pile up.
"""

import asyncio
from collections.abc import Callable, Coroutine

__all__ = ["Failed", "vital"]

Failed = Callable[[BaseException], None]


def vital(work: Coroutine[None, None, None], name: str, failed: Failed) -> "asyncio.Task[None]":
    """A task whose error is handed on."""
    task = asyncio.create_task(work, name=name)

    def ended(done: "asyncio.Task[None]") -> None:
        error = None if done.cancelled() else done.exception()
        if error is not None:
            failed(error)

    task.add_done_callback(ended)
    return task
