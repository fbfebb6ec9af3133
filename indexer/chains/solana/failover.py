"""Several endpoints of one cluster, asked in turn: the first that answers, until it does not."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from indexer.chains import SourceError, SourceUnavailableError
from indexer.chains.jsonrpc import JsonRpc

log = logging.getLogger(__name__)


class Failover:
    """Asks the current one of `all` (at least one); where that fails, each of the others once."""

    def __init__(self, rpcs: Sequence[JsonRpc]) -> None:
        self.all = tuple(rpcs)
        self.current = self.all[0]

    async def close(self) -> None:
        """Give up all connections."""
        for rpc in self.all:
            await rpc.close()

    async def call(self, method: str, *params: Any, limit: int) -> Any:
        """The result of a call. Raises what the first one failed with, unless it is final and another's may pass."""
        failures: list[SourceError] = []
        for _ in self.all:
            try:
                return await self.current.call(method, *params, limit=limit)
            except SourceError as error:
                failures.append(error)
                self.move_on(error)
        passing = (error for error in failures if isinstance(error, SourceUnavailableError))
        raise next(passing, failures[0])

    def move_on(self, why: SourceError) -> None:
        """Ask the next one from now on."""
        if len(self.all) > 1:
            self.current = self.all[(self.all.index(self.current) + 1) % len(self.all)]
            log.warning("%s; asking %s", why, self.current.shown)
