"""Link a block's header to the chain: by headers from or to a packaged checkpoint, or by a source of the user's own."""

from __future__ import annotations

from collections.abc import Callable

from indexer.chains import SourceError
from indexer.chainwork import work
from indexer.checkpoints import LEAD, checkpoints
from indexer.headers import HeaderChain
from indexer.networks import Network
from overlay.verifying.claim import HEADER, Claim, NotProvedError
from overlay.verifying.own import OwnSource
from parsers.tx import sha256d

Fetch = Callable[[int], list[bytes]]
"""Consecutive headers of the chain from a height on, as many as the server gives at once; empty at its end."""

MAX_HEADERS, MAX_PAGES = 2_000_000, 1_000


def in_chain(claim: Claim, fetch: Fetch, own: OwnSource | None, told: Callable[[int, int], None]) -> str:
    """How the block is known to be in the chain, in a sentence. Raises NotProvedError, SourceError.

    `told` hears of headers that were checked, and of how many.
    """
    if own is not None:
        found = own.holds(claim.header[:HEADER], claim.height)
        if found:
            return f"your own source {own.name} has the block's header"
        if found is False:
            raise NotProvedError(f"your own source {own.name} says that the block is not in its best chain")
    return _by_checkpoint(claim, fetch, told)


def span(network: Network, height: int) -> tuple[int, int, int]:
    """The fewest headers that link a height to a checkpoint: the first, the last, and the checkpoint's height."""
    heights = [point.height for point in checkpoints(network)] or [0]
    spans = []
    for point in heights:
        if point >= height:
            spans.append((height, point, point))
        else:
            spans.append((max(0, point - LEAD), height, point))
    return min(spans, key=lambda each: each[1] - each[0])


def _by_checkpoint(claim: Claim, fetch: Fetch, told: Callable[[int, int], None]) -> str:
    network = claim.network
    first, last, point = span(network, claim.height)
    if last - first > MAX_HEADERS:
        raise NotProvedError(f"the nearest packaged checkpoint, {point:,}, is more than {MAX_HEADERS:,} headers away")
    chain = HeaderChain(str(network), network)
    if last > point and not chain.requires_bits:
        # such headers are worth only what their maker says
        raise NotProvedError(
            f"for {network} no rule of required bits is known here, and the last checkpoint is at {point:,}: "
            "give a source of headers of your own (--headers)"
        )
    if last > point and network.coin == "doge":
        raise NotProvedError(
            f"the work of {network} is in other chains' headers, which a proof does not hold, and the last checkpoint "
            f"is at {point:,}: give a source of headers of your own (--headers)"
        )
    count = _take(chain, network, first, last, fetch, told)
    digest = sha256d(claim.header[:HEADER])
    if not chain.anchored or not chain.is_best(digest) or chain.find(digest) != claim.height:
        raise NotProvedError(f"the headers served do not hold the block at height {claim.height:,}")
    if point >= claim.height:
        how = "linked by hash up to" if point > claim.height else "it is itself"
        return f"{count:,} headers: {how} {_named(network, point)}"
    tip = chain.tip()
    above = (tip.height if tip else claim.height) - claim.height
    return f"{count:,} headers from {_named(network, point)} on, {above:,} of them above the block: {chain.checked}"


def _named(network: Network, point: int) -> str:
    return f"the genesis block of {network}" if point == 0 else f"the packaged checkpoint {point:,}"


def _take(
    chain: HeaderChain, network: Network, first: int, last: int, fetch: Fetch, told: Callable[[int, int], None]
) -> int:
    """Read headers from `first` at least to `last` into the chain; how many there were."""
    at, pages = first, 0
    while at <= last:
        pages += 1
        if pages > MAX_PAGES:
            raise NotProvedError(
                f"{MAX_PAGES:,} answers held no more than {at - first:,} headers of {last - first + 1:,}"
            )
        headers = fetch(at)
        if not headers:
            raise NotProvedError(f"the answers end at header {at:,}, and headers up to {last:,} are needed")
        try:
            if at == first:
                _check_genesis(network, first, headers[0])
                chain.begin(first, headers)
            else:
                chain.add(headers)
        except SourceError as error:
            raise NotProvedError(str(error)) from error
        at += len(headers)
        told(at - first, last - first + 1)
    return at - first


def _check_genesis(network: Network, first: int, header: bytes) -> None:
    """Regtest has no checkpoints, as anyone may begin another; the one of the nodes' own is asked for here."""
    digest = sha256d(header)[::-1].hex()
    if first == 0 and digest != network.genesis:
        raise NotProvedError(f"the headers begin with {digest}, and {network} with {network.genesis}")


def difficulty(bits: int) -> str:
    """What meeting these bits took, in words."""
    return f"about 2^{work(bits).bit_length() - 1} hashes"
