"""A node's ZeroMQ notifications of new blocks and transactions. A lost message only costs time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

import zmq
import zmq.asyncio

from indexer.errors import SourceError

log = logging.getLogger(__name__)

MESSAGE_BYTES = 64 << 20
"""Larger messages are dropped: a transaction of that size is requested instead."""

MESSAGES = 1_000
"""Messages queued until they are read; the publisher drops more."""

TOPICS = (b"hashblock", b"rawtx")


class ZmqSubscriber:
    """Subscribes to one or several publishers. `transaction` is called with every raw transaction announced.

    `blocks` and `transactions` count the messages received; each sets `event`.
    """

    def __init__(self, name: str, addresses: Sequence[str], transaction: Callable[[bytes], None]) -> None:
        self.name, self._addresses, self._transaction = name, addresses, transaction
        self.event = asyncio.Event()
        self.blocks, self.transactions = 0, 0
        self._context: zmq.asyncio.Context | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Subscribe, and read until `close`. Raises SourceError for an address that cannot be one."""
        self._context = zmq.asyncio.Context()
        socket = self._context.socket(zmq.SUB)
        socket.set(zmq.MAXMSGSIZE, MESSAGE_BYTES)
        socket.set(zmq.RCVHWM, MESSAGES)
        socket.set(zmq.LINGER, 0)
        for topic in TOPICS:
            socket.subscribe(topic)
        for address in self._addresses:
            try:
                socket.connect(address)
            except zmq.ZMQError as error:
                self._context.destroy(linger=0)
                self._context = None
                raise SourceError(
                    f"{self.name}: zmq={address} is not a valid address ({error}); write tcp://host:port"
                ) from error
        self._task = asyncio.create_task(self._read(socket))

    async def close(self) -> None:
        """Close the socket."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        context, self._context = self._context, None
        if context is not None:
            context.destroy(linger=0)

    async def _read(self, socket: zmq.asyncio.Socket) -> None:
        while True:
            message: list[bytes] = await socket.recv_multipart()
            if len(message) < 2:
                continue
            if message[0] == b"hashblock":
                self.blocks += 1
            elif message[0] == b"rawtx":
                self.transactions += 1
                self._transaction(message[1])
            else:
                continue
            self.event.set()
