"""A proxy before a server that holds back what it answers: it accepts and stays silent, or lets little through."""

from __future__ import annotations

import asyncio
from contextlib import suppress


class Gate:
    """Forwards connections to a port of this machine.

        async with Gate(server.port) as gate:
            gate.is_shut = True    # what the server sends is held back from now on, until it is opened again
            gate.pace = 10         # so many bytes of an answer pass every 50 ms, instead of all

    `port` is its own.
    """

    def __init__(self, target: int) -> None:
        self.target, self.port = target, 0
        self.pace = 0
        self._open = asyncio.Event()
        self._open.set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def is_shut(self) -> bool:
        """Whether answers are held back."""
        return not self._open.is_set()

    @is_shut.setter
    def is_shut(self, value: bool) -> None:
        (self._open.clear if value else self._open.set)()

    async def __aenter__(self) -> Gate:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        with suppress(OSError, asyncio.CancelledError):
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self.target)
            try:
                await asyncio.gather(
                    self._pass(reader, server_writer), self._pass(server_reader, writer, is_answer=True)
                )
            finally:
                server_writer.close()
                writer.close()
        self._tasks.discard(task)

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_answer: bool = False
    ) -> None:
        while data := await reader.read(65_536):
            while data:
                if is_answer:
                    await self._open.wait()
                size = self.pace if is_answer and self.pace else len(data)
                writer.write(data[:size])
                await writer.drain()
                data = data[size:]
                if data:
                    await asyncio.sleep(0.05)
        writer.close()
