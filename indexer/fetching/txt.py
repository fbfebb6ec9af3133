"""TXT records, by which a domain speaks of registrations: `_a2b.<host>` with the text `id=<id>` (law 11).

The operator's own resolver is asked. A record names nothing that is connected to, so that no address is judged here.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from indexer.fetching.reasons import FetchError, shown

if TYPE_CHECKING:
    from dns.asyncresolver import Resolver

LABEL = "_a2b"
SECONDS = 5.0
MAX_RECORDS = 64
MAX_TEXT = 4_096


class TxtRecords:
    """Asks name servers for TXT records: those of the system, or `servers` (address and port)."""

    def __init__(self, servers: Sequence[tuple[str, int]] = (), seconds: float = SECONDS) -> None:
        self._servers, self._seconds = servers, seconds

    async def ids(self, host: str) -> frozenset[str]:
        """The ids that `_a2b.<host>` names; none where there is no such record. Raises FetchError (`fetch-dns`)."""
        texts = await self._texts(f"{LABEL}.{host}.")
        return frozenset(text[3:].strip() for text in texts if text.startswith("id="))

    @cached_property
    def _resolver(self) -> Resolver:
        """Made at the first question: reading the system's configuration takes its time. Raises DNSException."""
        from dns.asyncresolver import Resolver
        from dns.nameserver import Do53Nameserver

        made = Resolver(configure=not self._servers)
        if self._servers:
            made.nameservers = [Do53Nameserver(address, port) for address, port in self._servers]
        made.lifetime = self._seconds
        made.search = []
        return made

    async def _texts(self, name: str) -> list[str]:
        from dns.exception import DNSException
        from dns.name import LabelTooLong, NameTooLong
        from dns.resolver import NXDOMAIN, NoAnswer

        try:
            answer = await self._resolver.resolve(name, "TXT")
        except (NXDOMAIN, NoAnswer, LabelTooLong, NameTooLong):
            return []
        except (DNSException, OSError) as error:
            raise FetchError("fetch-dns", shown(str(error)) or type(error).__name__) from None
        joined = [b"".join(record.strings) for record in list(answer)[:MAX_RECORDS]]
        return [text[:MAX_TEXT].decode("ascii", "replace") for text in joined]
