"""What a mesh has started on its engine: ingests, selects and delivers, each once.

Promises   a component is started before it is asked anything, and no second time; what reads a
           stream stops before its ingest does.
Not here   which queries there are (`local.py`), what components do (`spark/`).
"""

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from shoal.cli.selections import Selections, stream_instance
from shoal.cli.sinks import deliver_instance, deliveries
from shoal.dataplane import commands as c
from shoal.kernel.errors import LocalError
from shoal.query.catalog import StreamDef
from shoal.query.selection import Selection

__all__ = ["Running"]


class Running:
    """The components of one process."""

    def __init__(
        self,
        streams: dict[str, StreamDef],
        selections: Selections,
        call: Callable[[c.Command], Mapping[str, object]],
    ) -> None:
        self._streams = streams
        self._selections = selections
        self._call = call
        #: Selects and delivers by instance, with the stream that a select reads.
        self._started: dict[str, str] = {}

    def start_stream(self, stream: StreamDef) -> None:
        """Read a stream from now on."""
        self._streams[stream.name] = stream
        component = c.Ingest(instance=stream_instance(stream), stream=stream)
        self._call(c.Start(component=component, weight=1.0))

    def stop_stream(self, stream: StreamDef) -> None:
        """Read it no more. Tables stay, and what they hold is still delivered."""
        del self._streams[stream.name]
        ingest = stream_instance(stream)
        readers = [name for name, reads in self._started.items() if reads == ingest]
        for instance in (*readers, ingest):
            # Who was fenced off has stopped already.
            with contextlib.suppress(LocalError):
                self._call(c.Stop(instance=instance))
            self._started.pop(instance, None)

    def start_select(self, found: Selection) -> str:
        """Have the component of a selection; its instance."""
        instance = self._selections.instance(found)
        if instance not in self._started:
            stream = self._streams[found.stream]
            component = c.Select(
                instance=instance,
                input=stream_instance(stream),
                stream=stream,
                signature=found.signature,
            )
            self._call(c.Start(component=component, weight=1.0))
            self._started[instance] = component.input
        return instance

    def start_deliver(self, instance: str) -> None:
        """Have this deliver component."""
        if instance not in self._started:
            self._call(c.Start(component=c.Deliver(instance=instance), weight=1.0))
            self._started[instance] = ""

    def start_delivers(self, folder: Path) -> None:
        """Go on with every book of deliveries, also where its stream was dropped since."""
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            self.start_deliver(path.name)

    def deliver(self, bodies: Mapping[str, Mapping[str, Any]]) -> None:
        """Register the sinks of queries, before their rows can bring any result."""
        for instance, added in deliveries(bodies, self._streams, stream_instance).items():
            self.start_deliver(instance)
            self._call(c.AddDeliveries(instance=instance, deliveries=added))

    def of_sink(
        self, command: type[c.EndDelivery] | type[c.ResumeDelivery], body: Mapping[str, Any]
    ) -> None:
        """Ask this of a query's delivery, if it has one."""
        into = body.get("into")
        if into is not None:
            stream = self._selections.stream(body["stream"])
            instance = deliver_instance(stream_instance(stream))
            self._call(command(instance=instance, delivery=into["delivery"]))
