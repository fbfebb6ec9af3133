"""A law: whatever happens on the chain and at the server, what is read of a subscription is in the end what an index of
all bytes holds."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, event

from indexer.errors import FailedBlockError, SourceUnavailableError
from parsers.bitcoin.tx import Outpoint
from tests.chainkit import ChainKit, agent
from tests.indexer.chains.test_junglebus import Followed

number = st.integers(0, 3)
steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["inscribe", "move", "update", "burn", "late", "unproved", "hidden"]), number),
        st.tuples(st.sampled_from(["empty", "fork", "remine"]), st.integers(1, 8)),
        st.tuples(st.just("crash"), st.integers(0, 12)),
        st.tuples(st.just("fault"), st.sampled_from(["tip", "list", "page", "get", "proof", "spend"])),
        st.tuples(st.sampled_from(["look", "restart", "later", "proved"]), st.none()),
    ),
    max_size=25,
)


class CrashError(Exception):
    """The program ends here."""


class History:
    """A mint, a server of it and an indexer; each step is one thing that can happen."""

    def __init__(self, followed: Followed) -> None:
        self.followed, self.kit = followed, followed.kit
        self.outpoints: list[tuple[Outpoint, int]] = []

    def _live(self, which: int) -> Outpoint | None:
        """A registration's place on the branch that is mined on."""
        branch = {txid for block in self.kit.branch(self.kit.blocks[-1]) for txid in block.txids}
        here = [
            outpoint for outpoint, _ in self.outpoints if outpoint.txid in branch and not self._spent(outpoint, branch)
        ]
        return here[which % len(here)] if here else None

    def _spent(self, outpoint: Outpoint, branch: set[bytes]) -> bool:
        return any(spent.prevout == outpoint for txid in branch for spent in self.kit.tx(Outpoint(txid, 0)).inputs)

    def _mine(self, outpoint: Outpoint) -> Outpoint:
        self.outpoints.append((outpoint, len(self.kit.blocks)))
        self.kit.mine(self.kit.pay(), outpoint)
        return outpoint

    def inscribe(self, which: int) -> None:
        self._mine(self.kit.inscribe(agent(f"agent {which} {len(self.kit.blocks)}")))

    def move(self, which: int) -> None:
        if (outpoint := self._live(which)) is not None:
            self._mine(self.kit.move(outpoint, f"owner {which}"))

    def update(self, which: int) -> None:
        if (outpoint := self._live(which)) is not None:
            self._mine(self.kit.update(outpoint, agent(f"news {which}")))

    def burn(self, which: int) -> None:
        if (outpoint := self._live(which)) is not None:
            self.kit.mine(self.kit.burn(outpoint))

    def late(self, _: int) -> None:
        """The newest block's transactions do not match for now."""
        self.followed.server.unmatched |= set(self.kit.blocks[-1].txids)

    def _know_older_blocks(self) -> None:
        """A server knows what matches in a block before six are on top of it; what it knows later may be missed."""
        server = self.followed.server
        server.follow()
        deep = {txid for block in server.best[:-6] for txid in block.txids}
        server.unmatched -= deep

    def unproved(self, _: int) -> None:
        branch = self.kit.branch(self.kit.blocks[-1])
        self.followed.server.unproved |= {txid for block in branch[-2:] for txid in block.txids}

    def proved(self, _: Any) -> None:
        """The server has the proofs of all transactions now."""
        self.followed.server.unproved.clear()

    def hidden(self, which: int) -> None:
        if self.outpoints:
            self.followed.server.unspent.add(self.outpoints[which % len(self.outpoints)][0])

    def empty(self, count: int) -> None:
        self.kit.mine_empty(count)

    def fork(self, depth: int) -> None:
        """A branch that is longer than the newest `depth` blocks."""
        branch = self.kit.branch(self.kit.blocks[-1])
        depth = min(depth, len(branch) - 2)
        if depth > 0:
            self.kit.mine_empty(depth + 1, parent=branch[-1 - depth])

    def remine(self, depth: int) -> None:
        """A longer branch with the transactions of the newest `depth` blocks, at the same heights."""
        branch = self.kit.branch(self.kit.blocks[-1])
        depth = min(depth, len(branch) - 2)
        parent = branch[-1 - depth]
        for block in branch[len(branch) - depth :]:
            parent = self.kit.mine(*(Outpoint(txid, 0) for txid in block.txids[1:]), parent=parent)
        self.kit.mine_empty(1, parent=parent)

    def fault(self, route: str) -> None:
        self.followed.server.fail(route, 500)

    async def look(self, _: Any = None) -> None:
        self._know_older_blocks()
        try:
            await self.followed.look()
        except SourceUnavailableError:
            return

    async def restart(self, _: Any = None) -> None:
        await self.followed.restart()

    async def crash(self, writes: int) -> None:
        """The program ends in the middle of a look, after so many commits."""
        commits = itertools.count()

        def commit(_: Connection) -> None:
            if next(commits) >= writes:
                raise CrashError

        event.listen(self.followed.indexing.store.engine, "commit", commit)
        with suppress(CrashError, FailedBlockError):  # of a batch that was being written
            await self.look()
        await self.restart()

    async def later(self, _: Any = None) -> None:
        if self.followed.indexing.followers:
            self.followed.later()
            await self.look()

    async def settle(self) -> None:
        """The server is honest and complete from now on; everything is asked for until nothing is left to ask."""
        server = self.followed.server
        server.honest()
        for stored in (server.unmatched, server.unproved, server.unspent):
            stored.clear()
        self.kit.mine_empty(1)
        await self.look()
        for _ in range(6):
            await self.later()


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps)
@example([("inscribe", 0), ("unproved", 0), ("empty", 6), ("look", None), ("restart", None)])
@example([("inscribe", 0), *2 * [("unproved", 0), ("remine", 2), ("look", None), ("proved", None), ("look", None)]])
def test_in_the_end_a_subscription_has_found_what_all_bytes_hold(answers: list[tuple[str, Any]]) -> None:
    async def story() -> None:
        with tempfile.TemporaryDirectory() as folder:
            async with Followed(ChainKit(), Path(folder)) as followed:
                history = History(followed)
                for name, argument in answers:
                    done = getattr(history, name)(argument)
                    if done is not None:
                        await done
                await history.settle()
                await followed.agrees()
                assert followed.source.violations.total == 0

    asyncio.run(story())
