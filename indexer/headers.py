"""A chain of headers of 80 bytes: checked once, when they arrive; the branch with most work is the best."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from itertools import zip_longest

from indexer.chains import HeaderRows, SourceError
from indexer.chainwork import work
from indexer.checkpoints import LEAD, checkpoints
from indexer.facts import BlockRef
from indexer.header_rules import Arrived, RuleError, Rules
from indexer.networks import Network
from indexer.rawheaders import SIZE, Branch, RawTree
from parsers.tx import sha256d

log = logging.getLogger(__name__)

SIDE_DEPTH = 2_016
"""A branch may begin so many blocks below the best tip; further down on regtest, where anything may change."""

SIDE_HEADERS = 20_000
"""Headers kept beside the best chain, 3.5 MB; beyond, all are forgotten but the branch that is being told."""

SAID_EVERY = 10_000
"""Headers whose scrypt was computed between two lines of the log: some four seconds."""

_PAGES = 100 * 2_016


class HeaderError(SourceError):
    """A header that cannot be taken: the message names its height and the rule it breaks."""


class HeaderChain:
    """The headers of one network that a source told. Hashes are in internal byte order; heights count from genesis.

    It begins at genesis or, where a checkpoint follows, at any header before that (`span`, `begin`): the checkpoint's
    hash commits to all before it, and until it is reached nothing is told but `newest`. One thread may write while
    others ask.
    """

    def __init__(
        self, name: str, network: Network, rows: HeaderRows | None = None, *, auxpow_unchecked: bool = False
    ) -> None:
        self.name, self.network = name, network
        self._rows = rows
        self._rules = Rules(network, auxpow_unchecked=auxpow_unchecked)
        self._points = {point.height: point.hash for point in checkpoints(network)}
        self._last_point = max(self._points, default=-1)
        self._side_depth = SIDE_DEPTH if network.kind != "regtest" else None
        self._tree = RawTree()
        self._kept = 0
        self._anew = False
        self._hashed = 0
        self._writing, self._lock = threading.Lock(), threading.Lock()

    # -- asking

    @property
    def checked(self) -> str:
        """Which rules of headers were checked, in words."""
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
        """Whether headers above the last checkpoint have to have the bits that the chain requires of them."""
        return self._rules.requires_bits

    @property
    def first(self) -> int | None:
        """The height of the lowest header known, None when there is none."""
        with self._lock:
            return self._tree.first if len(self._tree) else None

    @property
    def anchored(self) -> bool:
        """Whether the chain leads from genesis, or up to a checkpoint."""
        return self._point() is not None

    def newest(self) -> BlockRef | None:
        """The newest header of the best chain, also while no checkpoint is reached: the one to go on from."""
        with self._lock:
            return self._ref(self._tree.at(self._tree.height))

    def tip(self) -> BlockRef | None:
        """The newest block of the best chain by work, None when there is none yet."""
        return self.newest() if self.anchored else None

    def ref(self, height: int, under: bytes | None = None) -> BlockRef | None:
        """The best chain's block at a height, or that of the branch ending in block `under`; None where it has none."""
        if not self.anchored:
            return None
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
            is_best = number is not None and self._tree.at(self._tree.height_of(number)) == number
        return is_best and self.anchored

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

    def _point(self) -> int | None:
        """The height of the highest checkpoint (or genesis) that the best chain holds."""
        tree = self._tree
        if not self._points:
            return 0 if len(tree) and tree.first == 0 else None
        return max((height for height in self._points if tree.first <= height <= tree.height), default=None)

    # -- taking headers

    def span(self, wanted: int, tip: int) -> tuple[int, int]:
        """Where to begin when blocks are read from height `wanted` on and the source's chain ends at `tip`: the height
        of the first header to ask for, the highest that will do, and that of the checkpoint it leads up to."""
        spans = [
            (min(wanted, max(0, height - LEAD)) if height > wanted else max(0, height - LEAD), height)
            for height in self._points
            if height <= tip
        ]
        return max(spans, default=(0, 0))

    def begin(self, first: int, headers: Sequence[bytes], *, aux: Sequence[bytes | None] | None = None) -> None:
        """Start anew with a header at height `first` and those after it. Raises HeaderError, and all is as before."""
        with self._writing:
            if first and not first <= self._last_point:
                raise HeaderError(f"{self.name}: no checkpoint follows height {first:,}: begin at genesis")
            before = self._tree, self._anew
            self._swap(RawTree(first), anew=True)
            try:
                self._take_all(headers, aux)
            except HeaderError:
                self._swap(*before)
                raise

    def _swap(self, tree: RawTree, anew: bool) -> None:
        with self._lock:
            self._tree, self._anew = tree, anew

    def add(self, headers: Sequence[bytes], *, aux: Sequence[bytes | None] | None = None) -> None:
        """Take headers of 80 bytes, each on one that is known or before it in the list. Known ones are passed over.

        `aux` holds for each what follows it where it was merge-mined (Dogecoin). Raises HeaderError at the first that
        breaks a rule; those before it are kept, but for what does not lead to a checkpoint.
        """
        with self._writing:
            self._take_all(headers, aux)

    def _take_all(self, headers: Sequence[bytes], aux: Sequence[bytes | None] | None) -> None:
        branch: Branch | None = None
        for raw, behind in zip_longest(headers, aux or ()):
            if raw is None or len(raw) != SIZE:
                raise HeaderError(f"{self.name}: a header has {len(raw or b''):,} bytes, not {SIZE}")
            branch = self._take(Arrived(raw, sha256d(raw), behind), branch)

    def _take(self, header: Arrived, branch: Branch | None) -> Branch | None:
        """Take one header, where `branch` ends in the one before it in the list; the branch that it ends now."""
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
            parent = branch.at(branch.height)
            branch.append(self._tree.put(header.digest, parent, work(header.bits), header.raw))
        return branch

    def _on(self, parent: int | None, branch: Branch | None) -> Branch:
        """The branch that ends in a header, with room for one more beside the best chain."""
        if branch is None or branch.height < self._tree.first or branch.at(branch.height) != parent:
            branch = Branch(self._tree, parent)
        beside = len(self._tree) - len(self._tree.best())
        if beside < SIDE_HEADERS or parent is None or parent == self._tree.at(self._tree.height):
            return branch
        if branch.beside >= SIDE_HEADERS:
            raise HeaderError(
                f"{self.name}: {SIDE_HEADERS:,} headers have less work than the best chain; no more are kept"
            )
        digest = self._tree.hash(parent)
        with self._lock:
            self._tree.forget(branch.side)
        return Branch(self._tree, self._tree.find(digest))

    def _check(self, branch: Branch, header: Arrived) -> None:
        """Check a header that would end a branch. Raises RuleError."""
        height, point = branch.height + 1, self._point()
        if point is not None and height <= point:
            raise RuleError(f"it forks from the best chain before the checkpoint at {point:,}")
        if self._side_depth is not None and not branch.beside and self._tree.height - height > self._side_depth:
            raise RuleError(f"it forks from the best chain {self._tree.height - branch.height:,} blocks below its tip")
        if height == 0 and any(header.raw[4:36]):
            raise RuleError("it follows another, and is no genesis block")
        expected = self._points.get(height)
        if expected is not None and header.digest != expected:
            self._drop(point)
            raise RuleError(f"{self.network} has {expected[::-1].hex()} there; what led up to it is forgotten")
        if point is None or not len(self._tree):
            self._rules.check_work(header)
        else:
            self._rules.check(branch, header)
        self._tell(height)

    def _drop(self, point: int | None) -> None:
        """Forget all above a checkpoint, or all: it does not lead to the next."""
        if not len(self._tree):
            return
        with self._lock:
            if point is None:
                self._tree, self._anew = RawTree(), True
            else:
                self._tree.cut(point)

    def _tell(self, height: int) -> None:
        """Say how far slow checks have come."""
        if self._rules.uses_scrypt and height > self._last_point:
            self._hashed += 1
            if self._hashed % SAID_EVERY == 0:
                log.info(
                    "%s: proof of work checked of %s headers, up to %s", self.name, f"{self._hashed:,}", f"{height:,}"
                )

    # -- keeping them

    def load(self) -> None:
        """Take the headers kept in the database, which were checked when they arrived, on from an empty chain.

        What is not linked, or not this network's, is left out, and told to the log: it can be had again.
        """
        if self._rows is None:
            return
        with self._writing, self._lock:
            for first, joined in self._rows.load_headers(self.name):
                try:
                    self._join(first, joined)
                except ValueError as error:
                    log.warning("%s: headers kept from %s on are left out: %s", self.name, f"{first:,}", error)
                    break
            self._kept = self._tree.changed = self._tree.height + 1

    def _join(self, first: int, joined: bytes) -> None:
        """Take headers from the database. Raises ValueError."""
        tree = self._tree if len(self._tree) else RawTree(first)
        if first != tree.height + 1 or len(joined) % SIZE:
            raise ValueError(f"{len(joined):,} bytes from {first:,} on do not follow {tree.height:,}")
        if tree.first > max(0, self._last_point):
            raise ValueError(f"no checkpoint follows height {first:,}")
        for height, expected in self._points.items():
            at = SIZE * (height - first)
            if 0 <= at < len(joined) and sha256d(joined[at : at + SIZE]) != expected:
                raise ValueError(f"{self.network} has {expected[::-1].hex()} at {height:,}")
        tree.join(joined)
        self._tree = tree

    def save(self) -> None:
        """Keep the best chain in the database, as far as it changed since."""
        if self._rows is None:
            return
        with self._writing:
            tree = self._tree
            if self._anew:
                self._rows.save_headers(self.name, 0, b"")
                self._anew, self._kept, tree.changed = False, tree.first, tree.first
            first = tree.changed
            while first <= tree.height or first < self._kept:
                last = min(first + _PAGES, tree.height + 1)
                numbers = (tree.at(height) for height in range(first, last))
                joined = b"".join(tree.raw(number) for number in numbers if number is not None)
                self._rows.save_headers(self.name, first, joined)
                first = tree.changed = self._kept = last
