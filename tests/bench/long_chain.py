"""A chain of many registrations, written while it is mined: memory does not grow with its length.

500 blocks hold all registrations, one in a transaction, and beside them updates, transfers and burns of earlier ones.
The last ten blocks are kept, so that a fork of eleven can take their place.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from overlay.search.document import Document
from parsers.bitcoin.tx import Outpoint
from tests.bench.bench_up import card, owner_of
from tests.chainkit import ChainKit, agent
from tests.chainkit_blocks import Block, frame

BLOCKS, REPLACED = 500, 10
"""Blocks with registrations, and those of them that a fork replaces."""

SHARES = {"update": 0.02, "move": 0.01, "burn": 0.005}
"""How many of each change a chain has, in registrations."""

BLOCKS_IN_FILE = 100
SAMPLE = 20_000
"""At most so many registrations are remembered: of these some change later."""

NEW = "Zyxwvnew"
"""The name of what only the last block of a fork lists."""

TYPES = {"agent": "a2b-agent", "tool": "a2b-mcp"}


class LongChain:
    """A chain of about `count` registrations in block files below a folder."""

    def __init__(self, folder: Path, documents: Iterator[Document], count: int) -> None:
        self.in_block = max(1, count // BLOCKS)
        self.registrations = self.in_block * BLOCKS
        changes = sum(int(share * self.registrations) + 1 for share in SHARES.values())
        self.burned = 0
        self.sample: list[Outpoint] = []
        """Outpoints of some registrations of all ages, which are their ids."""
        self._kit = ChainKit(funds=BLOCKS + 2 * REPLACED + 10 + changes)
        self._folder, self._documents, self._random = folder, documents, random.Random(5)
        self._changeable: list[Outpoint] = []
        self._due = dict.fromkeys(SHARES, 0.0)
        self._last: list[tuple[list[Outpoint], list[Outpoint]]] = []
        self._files = 0

    @property
    def height(self) -> int:
        """The height of the newest block."""
        return self._kit.tip.height

    @property
    def live(self) -> int:
        """Registrations that are live, as long as nothing but `write` was called."""
        return self.registrations - self.burned

    def write_first(self) -> None:
        """Write the blocks without registrations: genesis and the coins."""
        self._kit.write_tip(self._folder)
        self._write(self._kit.blocks)

    def write(self, into: Path) -> int:
        """Mine and write all blocks with registrations; the bytes they take."""
        for first in range(0, BLOCKS, BLOCKS_IN_FILE):
            with self._new_file(into).open("wb") as file:
                for number in range(first, first + BLOCKS_IN_FILE):
                    file.write(frame(self._next(is_last=number >= BLOCKS - REPLACED).raw))
        return sum(path.stat().st_size for path in into.iterdir())

    def write_block(self, name: str) -> None:
        """Mine and write a block that lists an agent of this name."""
        self._write([self._kit.mine(self._kit.inscribe(agent(name)))])

    def write_fork(self) -> None:
        """Write a fork that replaces the last ten blocks: it has their changes, the first half of their registrations,
        as many new ones for the others, and in an eleventh block one of the name NEW."""
        parent = self._kit.branch()[-1 - REPLACED]
        blocks = []
        for changes, listed in self._last:
            stay = listed[: len(listed) // 2]
            parent = self._kit.mine(*changes, *stay, *self._inscribe(len(listed) - len(stay)), parent=parent)
            blocks.append(parent)
        blocks.append(self._kit.mine(self._kit.inscribe(agent(NEW)), parent=parent))
        self._write(blocks)

    def _write(self, blocks: Sequence[Block]) -> None:
        path = self._new_file(self._folder)
        part = path.with_suffix(".part")  # no reader sees half a file
        part.write_bytes(b"".join(frame(block.raw) for block in blocks))
        part.rename(path)

    def _new_file(self, folder: Path) -> Path:
        self._files += 1
        return folder / f"blk{self._files - 1:05}.dat"

    def _next(self, *, is_last: bool) -> Block:
        changes = [outpoint for name in SHARES for outpoint in self._changes(name)]
        listed = self._inscribe(self.in_block)
        block = self._kit.mine(*changes, *listed)
        if is_last:  # nothing changes what a fork may replace
            self._last.append((changes, listed))
            return block
        some = self._random.sample(listed, min(len(listed), SAMPLE // BLOCKS))
        self.sample += some
        spendable = [*some, *(outpoint for outpoint in changes if self._kit.satoshis(outpoint) == 1)]
        self._changeable += spendable
        self._kit.forget(block, spendable)
        return block

    def _changes(self, name: str) -> Iterator[Outpoint]:
        self._due[name] += self.in_block * SHARES[name]
        while self._due[name] >= 1 and self._changeable:
            self._due[name] -= 1
            number = self._random.randrange(len(self._changeable))
            self._changeable[number], self._changeable[-1] = self._changeable[-1], self._changeable[number]
            yield self._change(name, self._changeable.pop())

    def _change(self, name: str, outpoint: Outpoint) -> Outpoint:
        if name == "burn":
            self.burned += 1
            return self._kit.burn(outpoint)
        if name == "move":
            return self._kit.move(outpoint)
        return self._kit.update(outpoint, card(next(self._documents)))

    def _inscribe(self, count: int) -> list[Outpoint]:
        """Registrations in transactions that spend the change of one another."""
        coin, results = self._kit.fund(), []
        for _ in range(count):
            document = next(self._documents)
            listed = self._kit.inscribe(
                card(document), TYPES[document.kind], "bench", owner=owner_of(document), source=coin
            )
            coin = Outpoint(listed.txid, 1)
            results.append(listed)
        return results
