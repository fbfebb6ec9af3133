"""A chain of headers of 80 bytes. Each is checked once, on arrival; the branch with the most work is the best."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from itertools import zip_longest

from indexer.errors import SourceRefusalError
from indexer.headers import HeaderStore
from indexer.headers.networks import LEAD, Network, checkpoints
from indexer.headers.proof_of_work import work
from indexer.headers.raw_tree import SIZE, Branch, RawTree
from indexer.headers.required_bits import RuleError, UncheckedHeader
from indexer.headers.rules import HeaderRules
from indexer.model import BlockRef
from parsers.bitcoin.tx import sha256d

log = logging.getLogger(__name__)

SIDE_DEPTH = 2_016
"""Blocks below the best tip at which a branch may still fork off; on regtest there is no limit."""

SIDE_HEADERS = 20_000
"""Headers held on side branches, 3.5 MB. Beyond that, all are dropped except the branch that is being added to."""

LOG_EVERY = 10_000
"""Scrypt checks between two log lines: some four seconds."""

_PAGES = 100 * 2_016


class HeaderError(SourceRefusalError):
    """A header that is refused: the message names its height and the rule it breaks."""


class HeaderChain:
    """The headers of one network from one source. Hashes are in internal byte order; heights count from genesis.

    It begins at genesis, or at any header below a checkpoint (`span`, `begin`): its hash commits to all headers
    before it. Until the checkpoint is reached, only `newest` returns blocks. One thread may write while others read.
    """

    def __init__(
        self, name: str, network: Network, store: HeaderStore | None = None, *, auxpow_unchecked: bool = False
    ) -> None:
        self.name, self.network = name, network
        self._store = store
        self._rules = HeaderRules(network, auxpow_unchecked=auxpow_unchecked)
        self._points = {point.height: point.hash for point in checkpoints(network)}
        self._last_point = max(self._points, default=-1)
        self.side_depth = SIDE_DEPTH if network.kind != "regtest" else None
        self._tree = RawTree()
        self._saved_count = 0
        self._is_replaced = False
        self._hashed = 0
        self._writing, self._lock = threading.Lock(), threading.Lock()

    # -- reading

    @property
    def checked(self) -> str:
        """The header rules that were checked, as text."""
        words = self._rules.checked
        first, point = self._tree.first, self._point()
        if self._rules.uses_scrypt and self._last_point > 0:
            words += f"; no proof of work up to {self._last_point:,}, a checkpoint"
        elif first and point is not None:
            passed = min(height for height in self._points if height >= first)
            words += f"; up to {passed:,} only linkage and work, to a checkpoint"
        if self._rules.auxpow_unchecked:
            words += "; merge-mined ones also without their proof of work (auxpow=unchecked)"
        return words

    @property
    def requires_bits(self) -> bool:
        """Whether the required bits of headers above the last checkpoint are checked."""
        return self._rules.requires_bits

    @property
    def first(self) -> int | None:
        """The height of the lowest header, None without headers."""
        with self._lock:
            return self._tree.first if len(self._tree) else None

    @property
    def anchored(self) -> bool:
        """Whether the chain contains genesis or a checkpoint."""
        return self._point() is not None

    def newest(self) -> BlockRef | None:
        """The newest header of the best chain, even before a checkpoint is reached."""
        with self._lock:
            return self._ref(self._tree.number_at(self._tree.height))

    def tip(self) -> BlockRef | None:
        """The newest block of the best chain by work, None before a checkpoint is reached."""
        return self.newest() if self.anchored else None

    def ref(self, height: int, under: bytes | None = None) -> BlockRef | None:
        """The block at a height of the best chain, or of the branch that ends in block `under`; None above its end."""
        if not self.anchored:
            return None
        with self._lock:
            if under is None:
                return self._ref(self._tree.number_at(height))
            number = self._tree.find(under)
            return None if number is None else self._ref(Branch(self._tree, number).number_at(height))

    def find(self, digest: bytes) -> int | None:
        """The height of a header on any branch, None if it is unknown."""
        with self._lock:
            number = self._tree.find(digest)
            return None if number is None else self._tree.height_of(number)

    def is_best(self, digest: bytes) -> bool:
        """Whether the best chain contains the block."""
        with self._lock:
            number = self._tree.find(digest)
            is_best = number is not None and self._tree.number_at(self._tree.height_of(number)) == number
        return is_best and self.anchored

    def locator(self) -> list[bytes]:
        """A block locator: hashes of the best chain, newest first, with growing distances after the first ten, and the
        lowest last."""
        hashes = []
        with self._lock:
            height, step = self._tree.height, 1
            while (number := self._tree.number_at(height)) is not None:
                hashes.append(self._tree.hash(number))
                step = step * 2 if len(hashes) >= 10 else 1
                height = max(height - step, self._tree.first) if height > self._tree.first else -1
        return hashes

    def _ref(self, number: int | None) -> BlockRef | None:
        if number is None:
            return None
        raw = self._tree.raw(number)
        time = int.from_bytes(raw[68:72], "little")
        return BlockRef(self.name, self._tree.height_of(number), self._tree.hash(number), raw[4:36], time, raw)

    def _point(self) -> int | None:
        """The height of the highest checkpoint (or genesis) on the best chain."""
        tree = self._tree
        if not self._points:
            return 0 if len(tree) and tree.first == 0 else None
        return max((height for height in self._points if tree.first <= height <= tree.height), default=None)

    # -- adding headers

    def span(self, first: int, tip: int) -> tuple[int, int]:
        """Where to start fetching headers if blocks are read from height `first` on and the source's tip is at `tip`:
        the height of the first header to request, as high as possible, and of the checkpoint that follows it."""
        spans = [
            (min(first, max(0, height - LEAD)) if height > first else max(0, height - LEAD), height)
            for height in self._points
            if height <= tip
        ]
        return max(spans, default=(0, 0))

    def begin(self, first: int, headers: Sequence[bytes]) -> None:
        """Replace all headers by these, from height `first` on. Raises HeaderError, and then changes nothing."""
        with self._writing:
            if first and not first <= self._last_point:
                raise HeaderError(f"{self.name}: no checkpoint is above height {first:,}: begin at genesis")
            before = self._tree, self._is_replaced
            self._swap(RawTree(first), is_replaced=True)
            try:
                self._take_all(headers)
            except HeaderError:
                self._swap(*before)
                raise

    def _swap(self, tree: RawTree, is_replaced: bool) -> None:
        with self._lock:
            self._tree, self._is_replaced = tree, is_replaced

    def add(self, headers: Sequence[bytes], *, aux: Sequence[bytes | None] | None = None) -> None:
        """Add headers of 80 bytes, each after its parent. Headers that are in the tree already are skipped.

        `aux` holds the AuxPoW of each header, None for those that are not merge-mined. Raises HeaderError for the first
        header that breaks a rule. Those before it remain, unless they contradict a checkpoint.
        """
        with self._writing:
            self._take_all(headers, aux)

    def _take_all(self, headers: Sequence[bytes], aux: Sequence[bytes | None] | None = None) -> None:
        branch: Branch | None = None
        for raw, auxpow in zip_longest(headers, aux or ()):
            if raw is None or len(raw) != SIZE:
                raise HeaderError(f"{self.name}: a header has {len(raw or b''):,} bytes, not {SIZE}")
            branch = self._take(UncheckedHeader(raw, sha256d(raw), auxpow), branch)

    def _take(self, header: UncheckedHeader, branch: Branch | None) -> Branch | None:
        """Add one header. `branch` ends in the header before it in the list; returns the branch that ends in it."""
        if self._tree.find(header.digest) is not None:
            return None
        parent = self._tree.find(header.raw[4:36])
        if parent is None and len(self._tree):
            prev = header.raw[35:3:-1].hex()
            raise HeaderError(f"{self.name}: header {header.digest[::-1].hex()} follows {prev}, which is not known")
        branch = self._on(parent, branch)
        height = branch.height + 1
        try:
            self._check(branch, header._replace(buried=height <= self._last_point))
        except RuleError as error:
            raise HeaderError(
                f"{self.name}: header {height:,} ({header.digest[::-1].hex()}) is refused: {error}"
            ) from error
        with self._lock:
            parent = branch.number_at(branch.height)
            branch.append(self._tree.put(header.digest, parent, work(header.bits), header.raw))
        return branch

    def _on(self, parent: int | None, branch: Branch | None) -> Branch:
        """The branch that ends in `parent`; drops other side branches if there are too many headers on them."""
        if branch is None or branch.height < self._tree.first or branch.number_at(branch.height) != parent:
            branch = Branch(self._tree, parent)
        beside = len(self._tree) - len(self._tree.best())
        if beside < SIDE_HEADERS or parent is None or parent == self._tree.number_at(self._tree.height):
            return branch
        if branch.beside >= SIDE_HEADERS:
            raise HeaderError(
                f"{self.name}: {SIDE_HEADERS:,} headers have less work than the best chain; no more are accepted"
            )
        digest = self._tree.hash(parent)
        with self._lock:
            self._tree.forget(branch.side)
        return Branch(self._tree, self._tree.find(digest))

    def _check(self, branch: Branch, header: UncheckedHeader) -> None:
        """Check a header on top of a branch. Raises RuleError."""
        height, point = branch.height + 1, self._point()
        if point is not None and height <= point:
            raise RuleError(f"it forks from the best chain before the checkpoint at {point:,}")
        if self.side_depth is not None and not branch.beside and self._tree.height - height > self.side_depth:
            raise RuleError(f"it forks from the best chain {self._tree.height - branch.height:,} blocks below its tip")
        if height == 0 and any(header.raw[4:36]):
            raise RuleError("it has a parent, so it is not a genesis block")
        expected = self._points.get(height)
        if expected is not None and header.digest != expected:
            self._drop(point)
            raise RuleError(
                f"{self.network} has {expected[::-1].hex()} there; the headers that led up to it are dropped"
            )
        if point is None or not len(self._tree):
            self._rules.check_work(header)
        else:
            self._rules.check(branch, header)
        self._log_progress(height)

    def _drop(self, point: int | None) -> None:
        """Drop all headers above a checkpoint, or all headers: they contradict the next checkpoint."""
        if not len(self._tree):
            return
        with self._lock:
            if point is None:
                self._tree, self._is_replaced = RawTree(), True
            else:
                self._tree.cut(point)

    def _log_progress(self, height: int) -> None:
        """Log the progress of scrypt checks."""
        if self._rules.uses_scrypt and height > self._last_point:
            self._hashed += 1
            if self._hashed % LOG_EVERY == 0:
                log.info(
                    "%s: proof of work checked of %s headers, up to %s", self.name, f"{self._hashed:,}", f"{height:,}"
                )

    # -- storing headers

    def load(self) -> None:
        """Load the stored headers into an empty chain. They were checked on arrival.

        Headers that are not linked, or of another network, are logged and skipped: they can be fetched again.
        """
        if self._store is None:
            return
        with self._writing, self._lock:
            for first, joined in self._store.load_headers(self.name):
                try:
                    self._join(first, joined)
                except ValueError as error:
                    log.warning("%s: stored headers from %s on are skipped: %s", self.name, f"{first:,}", error)
                    break
            self._saved_count = self._tree.changed = self._tree.height + 1

    def _join(self, first: int, joined: bytes) -> None:
        """Append stored headers. Raises ValueError."""
        tree = self._tree if len(self._tree) else RawTree(first)
        if first != tree.height + 1 or len(joined) % SIZE:
            raise ValueError(f"{len(joined):,} bytes from {first:,} on do not follow {tree.height:,}")
        if tree.first > max(0, self._last_point):
            raise ValueError(f"no checkpoint follows height {first:,}")
        for height, expected in self._points.items():
            offset = SIZE * (height - first)
            if 0 <= offset < len(joined) and sha256d(joined[offset : offset + SIZE]) != expected:
                raise ValueError(f"{self.network} has {expected[::-1].hex()} at {height:,}")
        tree.join(joined)
        self._tree = tree

    def save(self) -> None:
        """Store the part of the best chain that has changed since the last call."""
        if self._store is None:
            return
        with self._writing:
            tree = self._tree
            if self._is_replaced:
                self._store.save_headers(self.name, 0, b"")
                self._is_replaced, self._saved_count, tree.changed = False, tree.first, tree.first
            first = tree.changed
            while first <= tree.height or first < self._saved_count:
                last = min(first + _PAGES, tree.height + 1)
                numbers = (tree.number_at(height) for height in range(first, last))
                joined = b"".join(tree.raw(number) for number in numbers if number is not None)
                self._store.save_headers(self.name, first, joined)
                first = tree.changed = self._saved_count = last
