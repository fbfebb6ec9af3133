"""Reads the change stream (server-sent events) piece by piece, and keeps the position from which it continues."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from overlay.answers.pages import RegistryChange
from overlay.answers.record import read
from overlay.client.errors import RemoteError
from parsers.cards import strict_json

MAX_EVENT_BYTES = 64 << 10
_LINE_END = re.compile(rb"\r\n|\n|\r(?!\Z)")
_POSITION = re.compile(r"([!-~]{1,330})-([0-9]{1,18})")


class Position(NamedTuple):
    """How far a reader of the changes has come: store `str(position)`, and continue from `Position.parse(text)`."""

    epoch: str
    seq: int

    def __str__(self) -> str:
        return f"{self.epoch}-{self.seq}"

    @classmethod
    def parse(cls, text: str) -> Position:
        """The position that `str` wrote. Raises ValueError."""
        match = _POSITION.fullmatch(text)
        if match is None:
            raise ValueError(f"{text[:100]!a} is not a position in the changes")
        return cls(match[1], int(match[2]))


class ChangeStream:
    """One reader of the stream over all its connections. `position` is that of the last change, None before the first;
    `retry_seconds` is how long the server requires to wait before connecting again."""

    def __init__(self, position: Position | None, retry_seconds: float = 2.0) -> None:
        self.position, self.retry_seconds = position, retry_seconds
        self.connect()

    def connect(self) -> None:
        """Begin a new connection: an event that the last one left unfinished is discarded."""
        self._rest, self._data = b"", bytearray()

    def feed(self, chunk: bytes) -> Iterator[RegistryChange]:
        """The changes that these next bytes complete, each once. Raises RemoteError for bytes of anything but a change
        stream."""
        *lines, self._rest = _LINE_END.split(self._rest + chunk)
        self._check_size(len(self._rest))
        for line in lines:
            if line:
                self._field(line)
            elif self._data:
                data, self._data = bytes(self._data), bytearray()
                if (change := self._next(data)) is not None:
                    yield change

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._check_size(len(self._data) + len(value))
            self._data += value + b"\n"
        elif name == b"retry" and value.isdigit():
            self.retry_seconds = int(value[:9]) / 1_000

    def _check_size(self, size: int) -> None:
        if size > MAX_EVENT_BYTES:
            raise RemoteError(f"the change stream has an event of more than {MAX_EVENT_BYTES:,} bytes")

    def _next(self, data: bytes) -> RegistryChange | None:
        """The change in an event, None for one that was read before the connection broke."""
        try:
            change: RegistryChange = read(strict_json.answer(data), RegistryChange)
            position = Position.parse(f"{change.epoch}-{change.seq}")
        except ValueError as error:
            raise RemoteError(f"the change stream has an event that is not a change: {str(error)[:300]}") from None
        last = self.position
        if change.op != "reset" and last is not None:
            if position.seq <= last.seq and position.epoch == last.epoch:
                return None
            if position.seq <= last.seq:
                raise RemoteError(
                    f"the change stream went back from {last} to {position}, of another epoch, without a reset"
                )
        self.position = position
        return change
