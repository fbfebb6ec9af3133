"""A chain of headers of 80 bytes: checked once, when they arrive; the branch with most work is the best."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

from indexer.chains import HeaderRows, SourceError
from indexer.chainwork import work
from indexer.checkpoints import LEAD, checkpoints
from indexer.facts import BlockRef
from indexer.header_rules import RuleError, Rules
from indexer.headertree import Branch, RawTree
from indexer.networks import Network
from parsers.tx import sha256d

SIZE = 80


class HeaderError(SourceError):
    """A header that cannot be taken: the message names its height and the rule it breaks."""


class HeaderChain:
    """The headers of one network that a source told. Hashes are in internal byte order; heights count from genesis.

    It begins at genesis, or at headers that lead up to a checkpoint (`span`, `begin`). Writing and asking may happen in
    different threads.
    """

    def __init__(self, name: str, network: Network, rows: HeaderRows | None = None) -> None:
        self.name, self.network = name, network
        self._rows = rows
        self._rules = Rules(network)
        self._checkpoints = {point.height: point.hash for point in checkpoints(network)}
        self._tree = RawTree()
        self._writing, self._lock = threading.Lock(), threading.Lock()

    # -- asking

    @property
    def checked(self) -> str:
        """Which rules of headers are checked, in words."""
        return self._rules.checked

    @property
    def first(self) -> int | None:
        """The height of the lowest header known, None when there is none."""
        with self._lock:
            return self._tree.first if len(self._tree) else None

    def tip(self) -> BlockRef | None:
        """The newest block of the best chain by work, None when there is none yet."""
        with self._lock:
            return self._ref(self._tree.at(self._tree.height))

    def ref(self, height: int, under: bytes | None = None) -> BlockRef | None:
        """The best chain's block at a height, or that of the branch ending in block `under`; None where it has none."""
        with self._lock:
            if under is None:
                return self._ref(self._tree.at(height))
            number = self._tree.find(under)
            return None if number is None else self._ref(Branch(self._tree, number).at(height))

    def find(self, digest: bytes) -> int | None:
        """The height of a known header, on the best chain or beside it."""
        with self._lock:
            number = self._tree.find(digest)
            return None if number is None else self._tree.height_of(number)

    def is_best(self, digest: bytes) -> bool:
        """Whether the best chain holds that block."""
        with self._lock:
            number = self._tree.find(digest)
            return number is not None and self._tree.at(self._tree.height_of(number)) == number

    def locator(self) -> list[bytes]:
        """Hashes of the best chain, newest first: the ten newest, then ever further apart, the lowest last."""
        found = []
        with self._lock:
            height, step = self._tree.height, 1
            while (number := self._tree.at(height)) is not None:
                found.append(self._tree.hash(number))
                step = step * 2 if len(found) >= 10 else 1
                height = max(height - step, self._tree.first) if height > self._tree.first else -1
        return found

    def _ref(self, number: int | None) -> BlockRef | None:
        if number is None:
            return None
        raw = self._tree.raw(number)
        time = int.from_bytes(raw[68:72], "little")
        return BlockRef(self.name, self._tree.height_of(number), self._tree.hash(number), raw[4:36], time, raw)

    # -- taking headers

    def span(self, wanted: int, tip: int) -> tuple[int, int]:
        """Heights of the first and last header for `begin`, where blocks are read from height `wanted` on.

        The least of headers, for a source whose chain ends at `tip`, that reach from `wanted` up to it.
        """
        spans = [
            (min(wanted, height) if height > wanted + LEAD else max(0, min(wanted, height) - LEAD), height)
            for height in self._checkpoints
            if height <= tip
        ]
        return max(spans, default=(0, 0))

    def begin(self, first: int, headers: Sequence[bytes]) -> None:
        """Start anew with these headers from height `first` up to a checkpoint, or with genesis alone.

        They are proved by linkage: the checkpoint's hash commits to all. Raises HeaderError.
        """
        with self._writing:
            tree = RawTree(first)
            self._check_start(first, headers)
            for at, raw in enumerate(headers):
                digest = sha256d(raw)
                self._check_point(first + at, digest)
                if at and raw[4:36] != tree.hash(at - 1):
                    raise self._error(first + at, digest, f"it does not follow {tree.hash(at - 1)[::-1].hex()}")
                tree.put(digest, at - 1 if at else None, work(int.from_bytes(raw[72:76], "little")), raw)
            with self._lock:
                self._tree = tree

    def _check_start(self, first: int, headers: Sequence[bytes]) -> None:
        """Check that headers are of a length, and end in a block that is known to be the network's."""
        for at, raw in enumerate(headers):
            if len(raw) != SIZE:
                raise HeaderError(f"{self.name}: the header at {first + at:,} has {len(raw):,} bytes, not {SIZE}")
        last = first + len(headers) - 1
        if last not in self._checkpoints and (first, len(headers)) != (0, 1):
            raise HeaderError(f"{self.name}: headers from {first:,} to {last:,} do not end at a checkpoint")

    def add(self, headers: Sequence[bytes], *, aux: Iterable[bytes | None] | None = None) -> None:
        """Take headers of 80 bytes, each on one that is known or before it in the list. Known ones are passed over.

        Raises HeaderError at the first that breaks a rule; those before it are kept.
        """
        with self._writing:
            branch: Branch | None = None
            for raw in headers:
                branch = self._take(raw, branch)

    def _take(self, raw: bytes, branch: Branch | None) -> Branch | None:
        """Take one header, where `branch` ends in the one before it in the list; the branch that now ends in it."""
        if len(raw) != SIZE:
            raise HeaderError(f"{self.name}: a header has {len(raw):,} bytes, not {SIZE}")
        digest = sha256d(raw)
        known = self._tree.find(digest)
        if known is not None:
            return None
        if not len(self._tree):
            self._check_point(0, digest)
            self._put(digest, None, raw)
            return Branch(self._tree, 0)
        parent = self._tree.find(raw[4:36])
        if parent is None:
            raise HeaderError(f"{self.name}: {digest[::-1].hex()} follows {raw[35:3:-1].hex()}, which is not known")
        height = self._tree.height_of(parent) + 1
        if branch is None or branch.at(height - 1) != parent or branch.height != height - 1:
            branch = Branch(self._tree, parent)
        self._check_point(height, digest)
        try:
            self._rules.check(branch, raw, digest)
        except RuleError as error:
            raise self._error(height, digest, str(error)) from error
        branch.append(self._put(digest, parent, raw))
        return branch

    def _check_point(self, height: int, digest: bytes) -> None:
        """Check a block against the checkpoint of its height, or the genesis block, if there is one."""
        expected = self._checkpoints.get(height)
        if height == 0 and self.network.kind != "regtest":
            expected = bytes.fromhex(self.network.genesis)[::-1]
        if expected is not None and digest != expected:
            raise self._error(height, digest, f"{self.network} has {expected[::-1].hex()} there")

    def _put(self, digest: bytes, parent: int | None, raw: bytes) -> int:
        with self._lock:
            return self._tree.put(digest, parent, work(int.from_bytes(raw[72:76], "little")), raw)

    def _error(self, height: int, digest: bytes, why: str) -> HeaderError:
        return HeaderError(f"{self.name}: header {height:,} ({digest[::-1].hex()}) is refused: {why}")

    # -- keeping them

    def load(self) -> None:
        """Take the headers kept in the database; they were checked when they arrived. Raises HeaderError."""
        if self._rows is None:
            return
        for first, joined in self._rows.load_headers(self.name):
            for at in range(0, len(joined), SIZE):
                raw = joined[at : at + SIZE]
                with self._lock:
                    if not len(self._tree):
                        self._tree = RawTree(first)
                    parent = self._tree.find(raw[4:36]) if len(self._tree) else None
                    self._tree.put(sha256d(raw), parent, work(int.from_bytes(raw[72:76], "little")), raw)
        self._tree.changed = self._tree.height + 1

    def save(self) -> None:
        """Keep the best chain in the database, as far as it changed since."""
        if self._rows is None or not len(self._tree):
            return
        with self._writing:
            first = self._tree.changed
            if first <= self._tree.height:
                numbers = [self._tree.at(height) for height in range(first, self._tree.height + 1)]
                self._rows.save_headers(
                    self.name, first, b"".join(self._tree.raw(number) for number in numbers if number is not None)
                )
            self._tree.changed = self._tree.height + 1
