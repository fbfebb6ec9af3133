"""Link blocks to the chain: by headers from or to a packaged checkpoint, or by a source of the user's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from indexer.chains import SourceError
from indexer.chainwork import work
from indexer.checkpoints import LEAD, checkpoints
from indexer.headers import HeaderChain
from indexer.networks import Network
from overlay.verifying.claim import HEADER, Block, NotProvedError
from overlay.verifying.own import OwnSource
from parsers.tx import sha256d

Fetch = Callable[[int], list[bytes]]
"""Consecutive headers of the chain from a height on, as many as the server gives at once; empty at its end."""

Progress = Callable[[int, int], None]
"""Called with how many headers were checked, and of how many."""

MAX_HEADERS, MAX_PAGES = 2_000_000, 1_000


@dataclass(slots=True)
class _Range:
    """Headers from height `first` to `last` that link some blocks to the checkpoint at height `point`. Once fetched,
    `chain` holds `count` of them, and `problem` says why there are no more."""

    first: int
    last: int
    point: int
    chain: HeaderChain
    count: int = 0
    problem: NotProvedError | None = None


@dataclass(slots=True)
class HeaderLinks:
    """How blocks are known to be in the chain. The headers of all of them are fetched together, each range once, when
    the first is asked for."""

    network: Network
    blocks: Sequence[Block]
    fetch: Fetch
    own: OwnSource | None
    progress: Progress
    _results: dict[tuple[bytes, int], str | NotProvedError] = field(default_factory=dict)
    _held: set[tuple[bytes, int]] = field(default_factory=set)

    def sentence(self, block: Block) -> str:
        """How one of the blocks is known to be in the chain. Raises NotProvedError; SourceError when `own` cannot be
        asked."""
        if not self._results:
            self._link()
        result = self._results[_key(block)]
        if isinstance(result, NotProvedError):
            raise result
        return result

    def proves_height(self, block: Block) -> bool:
        """Whether that also says the block's height, which a file of headers does not."""
        return self.own is None or self.own.knows_heights or _key(block) not in self._held

    def _link(self) -> None:
        try:
            self._check_checkpoints()
            self._by_checkpoints([block for block in dict.fromkeys(self.blocks) if not self._is_settled(block)])
        except NotProvedError as error:
            self._results |= {key: error for key in map(_key, self.blocks) if key not in self._results}

    def _is_settled(self, block: Block) -> bool:
        """Ask the user's own source about a block; False when there is none, or it does not know the block and is on
        the same chain as far as it goes."""
        if self.own is None:
            return False
        is_held = self.own.holds(block.header[:HEADER], block.height)
        if is_held is None:
            return self._is_parted(block)
        self._held.add(_key(block))
        name = self.own.name
        self._results[_key(block)] = (
            f"your own source {name} has the block's header"
            if is_held
            else NotProvedError(f"your own source {name} says that the block is not in its best chain")
        )
        return True

    def _is_parted(self, block: Block) -> bool:
        try:
            self._check_same_chain({block.height: sha256d(block.header[:HEADER])}, "the answer")
        except NotProvedError as error:
            self._results[_key(block)] = error
            return True
        return False

    def _check_checkpoints(self) -> None:
        """Raise NotProvedError when the user's own source is on another chain than the network's."""
        points = {point.height: point.hash for point in checkpoints(self.network)}
        self._check_same_chain(points or {0: bytes.fromhex(self.network.genesis)[::-1]}, str(self.network))

    def _check_same_chain(self, blocks: dict[int, bytes], whose: str) -> None:
        """Raise NotProvedError when the user's own source has another block at one of these heights."""
        for height, digest in blocks.items():
            own = self.own.block_hash(height) if self.own is not None else None
            if self.own is not None and own is not None and own != digest:
                raise NotProvedError(
                    f"the chain of your own source {self.own.name} does not link with what was served: at height "
                    f"{height:,} it has block {own[::-1].hex()}, and {whose} has {digest[::-1].hex()}"
                )

    def _by_checkpoints(self, blocks: Iterable[Block]) -> None:
        ranges: dict[tuple[int, bool], _Range] = {}
        members: list[tuple[Block, _Range]] = []
        for block in blocks:
            try:
                members.append((block, self._range(ranges, block.height)))
            except NotProvedError as error:
                self._results[_key(block)] = error
        of, done = sum(part.last - part.first + 1 for part in ranges.values()), 0
        for part in ranges.values():
            self._take(part, done, of)
            self._check_tips(part)
            done += part.last - part.first + 1
        for block, part in members:
            try:
                self._results[_key(block)] = self._in_range(block, part)
            except NotProvedError as error:
                self._results[_key(block)] = error

    def _range(self, ranges: dict[tuple[int, bool], _Range], height: int) -> _Range:
        """The range that links a height, made wider for it or new. Raises NotProvedError."""
        network = self.network
        first, last, point = span(network, height)
        if last - first > MAX_HEADERS:
            raise NotProvedError(
                f"the nearest packaged checkpoint, {point:,}, is more than {MAX_HEADERS:,} headers away"
            )
        chain = HeaderChain(str(network), network)
        if last > point and not chain.requires_bits:
            # such headers are worth only what their maker says
            raise NotProvedError(
                f"for {network} no rule of required bits is known here, and the last checkpoint is at {point:,}: "
                "give a source of headers of your own (--headers)"
            )
        if last > point and network.coin == "doge":
            raise NotProvedError(
                f"the work of {network} is in other chains' headers, which a proof does not hold, and the last "
                f"checkpoint is at {point:,}: give a source of headers of your own (--headers)"
            )
        part = ranges.setdefault((point, last > point), _Range(first, last, point, chain))
        part.first, part.last = min(part.first, first), max(part.last, last)
        return part

    def _take(self, wanted: _Range, done: int, of: int) -> None:
        """Fetch headers of a range until it is whole, or something is wrong with them."""
        pages = 0
        try:
            while (height := wanted.first + wanted.count) <= wanted.last:
                pages += 1
                if pages > MAX_PAGES:
                    raise NotProvedError(
                        f"{MAX_PAGES:,} answers held no more than {wanted.count:,} headers of "
                        f"{wanted.last - wanted.first + 1:,}"
                    )
                headers = self.fetch(height)
                if not headers:
                    raise NotProvedError(
                        f"the answers end at header {height:,}, and headers up to {wanted.last:,} are needed"
                    )
                if wanted.count:
                    wanted.chain.add(headers)
                else:
                    _check_genesis(self.network, height, headers[0])
                    wanted.chain.begin(height, headers)
                wanted.count += len(headers)
                self.progress(done + wanted.count, of)
        except SourceError as error:
            wanted.problem = NotProvedError(str(error))
        except NotProvedError as error:
            wanted.problem = error

    def _in_range(self, block: Block, part: _Range) -> str:
        """How headers link a block. Raises NotProvedError."""
        chain, digest, point, tip = part.chain, sha256d(block.header[:HEADER]), part.point, part.chain.tip()
        if not chain.anchored or not chain.is_best(digest) or chain.find(digest) != block.height:
            raise part.problem or NotProvedError(f"the headers served do not hold the block at height {block.height:,}")
        if point >= block.height:
            how = "linked by hash up to" if point > block.height else "it is itself"
            return f"{part.count:,} headers: {how} {_named(self.network, point)}"
        above = (tip.height if tip else block.height) - block.height
        return (
            f"{part.count:,} headers from {_named(self.network, point)} on, {above:,} of them above the block: "
            f"{chain.checked}"
        )

    def _check_tips(self, part: _Range) -> None:
        """Where the user's own source ends below the block: it must have the header served at the height of its tip.
        Raises NotProvedError."""
        own = self.own.height() if self.own is not None else None
        tip = part.chain.ref(min(own, part.first + part.count - 1)) if own is not None else None
        if tip is not None:
            self._check_same_chain({tip.height: tip.hash}, "the answer")


def _key(block: Block) -> tuple[bytes, int]:
    return block.header[:HEADER], block.height


def span(network: Network, height: int) -> tuple[int, int, int]:
    """The fewest headers that link a height to a checkpoint: the first, the last, and the checkpoint's height."""
    heights = [point.height for point in checkpoints(network)] or [0]
    spans = []
    for point in heights:
        if point >= height:
            spans.append((height, point, point))
        else:
            spans.append((max(0, point - LEAD), height, point))
    return min(spans, key=lambda candidate: candidate[1] - candidate[0])


def _named(network: Network, point: int) -> str:
    return f"the genesis block of {network}" if point == 0 else f"the packaged checkpoint {point:,}"


def _check_genesis(network: Network, first: int, header: bytes) -> None:
    """Regtest has no checkpoints, as anyone may begin another; the one of the nodes' own is asked for here."""
    digest = sha256d(header)[::-1].hex()
    if first == 0 and digest != network.genesis:
        raise NotProvedError(f"the headers begin with {digest}, and {network} with {network.genesis}")


def difficulty(bits: int) -> str:
    """What meeting these bits took, in words."""
    return f"about 2^{work(bits).bit_length() - 1} hashes"
