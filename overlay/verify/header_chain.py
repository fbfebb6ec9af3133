"""Link blocks to the chain, by headers from or to a packaged checkpoint, or by the user's own source."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from indexer.errors import SourceError
from indexer.headers.header_chain import HeaderChain
from indexer.headers.networks import LEAD, Network, checkpoints
from indexer.headers.proof_of_work import work
from overlay.verify.server_answer import HEADER, MinedBlock, NotProvedError
from overlay.verify.trusted_source import TrustedSource
from parsers.bitcoin.tx import sha256d

Fetch = Callable[[int], list[bytes]]
"""Consecutive headers of the chain from a height on, as many as the server gives at once; empty at its end."""

Progress = Callable[[int, int], None]
"""Called with how many headers were checked, and of how many."""

MAX_HEADERS, MAX_PAGES = 2_000_000, 1_000


@dataclass(slots=True)
class _Range:
    """Headers from height `first` to `last` that link some blocks to the checkpoint at height `point`. Once fetched,
    `chain` holds `count` of them, and `problem` is why there are no more."""

    first: int
    last: int
    point: int
    chain: HeaderChain
    count: int = 0
    problem: NotProvedError | None = None


@dataclass(slots=True)
class HeaderLinks:
    """Proofs that blocks are in the chain. The headers of all blocks are fetched at the first call of `sentence`, every
    range once."""

    network: Network
    blocks: Sequence[MinedBlock]
    fetch: Fetch
    trusted: TrustedSource | None
    progress: Progress
    _results: dict[tuple[bytes, int], str | NotProvedError] = field(default_factory=dict)
    _held: set[tuple[bytes, int]] = field(default_factory=set)

    def sentence(self, block: MinedBlock) -> str:
        """The proof that a block is in the chain, in a sentence. Raises NotProvedError; SourceError when `trusted` does
        not answer."""
        if not self._results:
            self._link()
        result = self._results[_key(block)]
        if isinstance(result, NotProvedError):
            raise result
        return result

    def proves_height(self, block: MinedBlock) -> bool:
        """Whether the proof includes the block's height; a file of headers does not prove it."""
        return self.trusted is None or self.trusted.knows_heights or _key(block) not in self._held

    def _link(self) -> None:
        try:
            self._check_checkpoints()
            self._by_checkpoints([block for block in dict.fromkeys(self.blocks) if not self._is_settled(block)])
        except NotProvedError as error:
            self._results |= {key: error for key in map(_key, self.blocks) if key not in self._results}

    def _is_settled(self, block: MinedBlock) -> bool:
        """Query the user's own source for a block; False without one, or when it lacks the block and is on the same
        chain up to its tip."""
        if self.trusted is None:
            return False
        is_held = self.trusted.holds(block.header[:HEADER], block.height)
        if is_held is None:
            return self._is_parted(block)
        self._held.add(_key(block))
        name = self.trusted.name
        self._results[_key(block)] = (
            f"your own source {name} has the block's header"
            if is_held
            else NotProvedError(f"the best chain of your own source {name} does not have the block")
        )
        return True

    def _is_parted(self, block: MinedBlock) -> bool:
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
            own_digest = self.trusted.block_hash(height) if self.trusted is not None else None
            if self.trusted is not None and own_digest is not None and own_digest != digest:
                raise NotProvedError(
                    f"the chain of your own source {self.trusted.name} does not link with the served headers: at "
                    f"height {height:,} it has block {own_digest[::-1].hex()}, and {whose} has {digest[::-1].hex()}"
                )

    def _by_checkpoints(self, blocks: Iterable[MinedBlock]) -> None:
        ranges: dict[tuple[int, bool], _Range] = {}
        members: list[tuple[MinedBlock, _Range]] = []
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
        """The range that links a height: an existing one, extended, or a new one. Raises NotProvedError."""
        network = self.network
        first, last, point = span(network, height)
        if last - first > MAX_HEADERS:
            raise NotProvedError(
                f"the nearest packaged checkpoint, {point:,}, is more than {MAX_HEADERS:,} headers away"
            )
        chain = HeaderChain(str(network), network)
        if last > point and not chain.requires_bits:
            # without required bits, headers can be made with any small amount of work
            raise NotProvedError(
                f"for {network} no rule of required bits is implemented, and the last checkpoint is at {point:,}: "
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

    def _take(self, requested: _Range, done: int, of: int) -> None:
        """Fetch the headers of a range until it is complete or one is invalid."""
        pages = 0
        try:
            while (height := requested.first + requested.count) <= requested.last:
                pages += 1
                if pages > MAX_PAGES:
                    raise NotProvedError(
                        f"{MAX_PAGES:,} answers held no more than {requested.count:,} headers of "
                        f"{requested.last - requested.first + 1:,}"
                    )
                headers = self.fetch(height)
                if not headers:
                    raise NotProvedError(
                        f"the answers end at header {height:,}, and headers up to {requested.last:,} are needed"
                    )
                if requested.count:
                    requested.chain.add(headers)
                else:
                    _check_genesis(self.network, height, headers[0])
                    requested.chain.begin(height, headers)
                requested.count += len(headers)
                self.progress(done + requested.count, of)
        except SourceError as error:
            requested.problem = NotProvedError(str(error))
        except NotProvedError as error:
            requested.problem = error

    def _in_range(self, block: MinedBlock, part: _Range) -> str:
        """How headers link a block, in a sentence. Raises NotProvedError."""
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
        trusted = self.trusted.height() if self.trusted is not None else None
        tip = part.chain.ref(min(trusted, part.first + part.count - 1)) if trusted is not None else None
        if tip is not None:
            self._check_same_chain({tip.height: tip.hash}, "the answer")


def _key(block: MinedBlock) -> tuple[bytes, int]:
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
    """Check the genesis block. Raises NotProvedError. Regtest has no other checkpoint, as anyone may start a chain."""
    digest = sha256d(header)[::-1].hex()
    if first == 0 and digest != network.genesis:
        raise NotProvedError(f"the headers begin with {digest}, and {network} with {network.genesis}")


def difficulty(bits: int) -> str:
    """The expected number of hashes to meet these bits, in words."""
    return f"about 2^{work(bits).bit_length() - 1} hashes"
