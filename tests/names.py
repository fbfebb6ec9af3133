"""A name server on a port of its own that says of TXT records what a test says.

async with NameServer() as names:
    names.texts["_a2b.agent.example"] = ["id=…"]
    await TxtRecords([names.address]).ids("agent.example")
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import dns.flags
import dns.message
import dns.rcode
import dns.rrset
import pytest


class NameServer(asyncio.DatagramProtocol):
    """`texts` are the records by name; other names do not exist. `mode` is `good`, `silent`, `broken` (no DNS at all)
    or `refused`. `asked` holds the names asked for."""

    def __init__(self) -> None:
        self.texts: dict[str, list[str]] = {}
        self.mode = "good"
        self.requests: list[str] = []

    async def __aenter__(self) -> NameServer:
        loop = asyncio.get_running_loop()
        self._transport: Any
        self._transport, _ = await loop.create_datagram_endpoint(lambda: self, ("127.0.0.1", 0))
        self.address: tuple[str, int] = self._transport.get_extra_info("sockname")[:2]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._transport.close()
        await asyncio.sleep(0)

    def datagram_received(self, data: bytes, addr: Any) -> None:
        query = dns.message.from_wire(data)
        self.requests.append(query.question[0].name.to_text(omit_final_dot=True))
        if self.mode == "silent":
            return
        self._transport.sendto(b"\0" * 7 if self.mode == "broken" else self._answer(query).to_wire(), addr)

    def _answer(self, query: Any) -> Any:
        reply = dns.message.make_response(query)
        reply.flags |= dns.flags.RA
        if self.mode == "refused":
            reply.set_rcode(dns.rcode.REFUSED)
            return reply
        name = query.question[0].name
        texts = self.texts.get(name.to_text(omit_final_dot=True))
        if texts is None:
            reply.set_rcode(dns.rcode.NXDOMAIN)
        elif texts:
            quoted = [
                " ".join(f'"{text[index : index + 250]}"' for index in range(0, len(text), 250)) for text in texts
            ]
            reply.answer.append(dns.rrset.from_text(name, 60, "IN", "TXT", *quoted))
        return reply


@pytest.fixture
async def names() -> AsyncIterator[NameServer]:
    """A name server that knows no name yet."""
    async with NameServer() as served:
        yield served
