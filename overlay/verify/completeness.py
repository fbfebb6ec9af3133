"""Whether an overlay leaves something out: its anchors (BRC-136) beside the anchors of others, and whether a
transaction that these admitted since the listing's last one moves its satoshi.

No bytes prove that nothing is missing. What one overlay admitted and another did not, however, is proved by its bytes:
it has a merkle path, and it is judged here by the laws of the registry.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from indexer.headers.networks import Network
from indexer.model import RegistrationState
from indexer.resolution.registration_lookup import RegistrationLookup
from indexer.resolution.transaction_reader import read_alone
from overlay.verify.anchor_comparison import Comparison, DifferingBlock, compare, walk
from overlay.verify.anchor_sources import AnchorSource, ContradictionError, merkle_root
from overlay.verify.header_chain import Fetch, HeaderLinks
from overlay.verify.server_answer import MinedBlock, NotCheckedError, NotProvedError, ServerAnswer
from parsers.bitcoin import tx
from parsers.bitcoin.basm import TopicAnchor
from parsers.bitcoin.basm_answers import TXIDS_AT_ONCE
from parsers.bitcoin.beef import NODE_PAIR
from parsers.bitcoin.tx import Outpoint, Transaction, sha256d
from parsers.errors import ParseError

MAX_SCANNED = 50_000
"""Transactions that are fetched to see whether one spends the satoshi of a listing: 100 MB or so."""


class _NoRegistrations:
    def at_outpoints(self, _chain: str, _outpoints: Iterable[Outpoint]) -> dict[Outpoint, list[RegistrationState]]:
        return {}


@dataclass(slots=True)
class Completeness:
    """The anchors of the overlay that serves a listing (`serving`), and the anchors of `others`. `blocks` are linked to
    the chain with the blocks of the listing."""

    serving: AnchorSource
    others: Sequence[AnchorSource]
    blocks: list[MinedBlock] = field(default_factory=list)
    _comparisons: list[tuple[AnchorSource, Comparison]] = field(default_factory=list)
    _problem: Exception | None = None
    _headers: dict[int, bytes] = field(default_factory=dict)

    def compare(self, network: Network, fetch: Fetch) -> None:
        """Compare the anchors, and fetch the headers of the blocks that matter. What is wrong is raised by `check`."""
        try:
            if network.coin != "bsv":
                raise NotCheckedError(f"there are no anchors of {network}")
            for other in self.others:
                comparison = compare(self.serving, other)
                self._comparisons.append((other, comparison))
                for anchor in (comparison.anchor, *(difference.ours for difference in comparison.differences)):
                    self._add_block(anchor, fetch)
        except (NotProvedError, NotCheckedError, ContradictionError) as error:
            self._problem = error

    def _add_block(self, anchor: TopicAnchor, fetch: Fetch) -> None:
        if anchor.height in self._headers:
            return
        header = next(iter(fetch(anchor.height)), b"")
        if sha256d(header) != anchor.block_hash:
            raise NotProvedError(
                f"the anchor at height {anchor.height:,} is of block {anchor.block_hash[::-1].hex()}, and the header "
                "served is of another"
            )
        self._headers[anchor.height] = header
        self.blocks.append(MinedBlock(b"", anchor.block_hash, anchor.height, header))

    def check(self, answer: ServerAnswer, links: HeaderLinks) -> str:
        """The result of the comparison, in a sentence. Raises NotProvedError where `serving` leaves something out or
        contradicts itself, NotCheckedError where that cannot be determined."""
        try:
            if self._problem is not None:
                raise self._problem
            return self._checked(answer, links)
        except ContradictionError as error:
            # what is wrong with another overlay's answers says nothing against this one
            raise (NotProvedError if error.source is self.serving else NotCheckedError)(str(error)) from None

    def _checked(self, answer: ServerAnswer, links: HeaderLinks) -> str:
        for block in self.blocks:
            links.sentence(block)
        sentences = []
        for other, comparison in self._comparisons:
            extra = [self._judged(other, answer, difference) for difference in comparison.differences]
            scanned = self._scan(other, answer, comparison)
            unjudged = [sentence for sentence in extra if sentence]
            if unjudged:
                raise NotCheckedError("; ".join([*unjudged, *comparison.notes]))
            extra_there = (
                f"; {other.name} leaves out some that {self.serving.name} has" if comparison.differences else ""
            )
            sentences.append(
                f"{other.name} admits nothing that {self.serving.name} leaves out, from block {comparison.first:,} to "
                f"{comparison.last:,}{extra_there}; {scanned}"
            )
            sentences += comparison.notes
        return "; ".join(sentences)

    def _judged(self, other: AnchorSource, answer: ServerAnswer, difference: DifferingBlock) -> str:
        """Why what only `other` admitted does not show that `serving` leaves something out; "" where `other` has no
        more. Raises NotProvedError where it does."""
        theirs = other.admitted(difference.theirs)
        ours = {admitted.txid for admitted in self.serving.admitted(difference.ours)}
        missing = [admitted.txid for admitted in theirs if admitted.txid not in ours]
        height = difference.theirs.height
        for transaction in _transactions(missing, (other, self.serving)):
            if merkle_root(other, height, transaction.txid) != self._headers[height][36:68]:
                raise NotCheckedError(f"{other.name} does not prove that {transaction.hex_id} is in block {height:,}")
            if _is_admitted(transaction, height, answer.network):
                raise NotProvedError(
                    f"{self.serving.name} leaves out transaction {transaction.hex_id} of block {height:,}, which "
                    f"{other.name} has, with a record of the registry in it"
                )
            _check_not_moved(transaction, answer, height)
        if not missing:
            return ""
        return (
            f"{other.name} admits {missing[0][::-1].hex()} in block {height:,} and {self.serving.name} does not: it "
            "has no record of its own, and only an index of your own can say whether it moves a registration"
        )

    def _scan(self, other: AnchorSource, answer: ServerAnswer, comparison: Comparison) -> str:
        """Look for a transaction that spends the listing's satoshi among those admitted since it arrived there. Raises
        NotProvedError where there is one."""
        if answer.location is None:
            return "the satoshi is burned, which is final"
        last = answer.after[-1].block if answer.after else answer.block
        if last is None or not comparison.first <= last.height <= comparison.last:
            raise NotCheckedError("the heights that were compared do not include the listing's last block")
        count = 0
        for anchor in walk(other, last.height, comparison.last):
            count += anchor.admitted
            if count > MAX_SCANNED:
                raise NotCheckedError(
                    f"more than {MAX_SCANNED:,} transactions were admitted since block {last.height:,}: only an index "
                    "of your own can read them all (a2b mirror)"
                )
            if anchor.admitted:
                txids = [admitted.txid for admitted in other.admitted(anchor)]
                for transaction in _transactions(txids, (other, self.serving)):
                    _check_not_moved(transaction, answer, anchor.height)
        return f"of {count:,} transactions admitted since block {last.height:,} none moves the satoshi"


def _check_not_moved(transaction: Transaction, answer: ServerAnswer, height: int) -> None:
    if any(spent.prevout == answer.location for spent in transaction.inputs):
        raise NotProvedError(
            f"transaction {transaction.hex_id} of block {height:,} spends {answer.location}: there is a newer revision"
        )


def _is_admitted(transaction: Transaction, height: int, network: Network) -> bool:
    """Whether a transaction is admitted independently of earlier ones: it registers, updates or points."""
    lookup = RegistrationLookup(_NoRegistrations(), "")
    reading = read_alone(transaction, height, network.rules, network.kind, lookup, {}).reading
    return any(event.state is not None or (event.pointer is not None and event.valid) for event in reading.events)


def _transactions(txids: Sequence[bytes], sources: Sequence[AnchorSource]) -> Iterator[Transaction]:
    """These transactions, from the first source that delivers each. Raises NotCheckedError for a transaction that no
    source delivers."""
    remaining = iter(txids)
    while batch := list(islice(remaining, TXIDS_AT_ONCE)):
        while batch:
            raws = next((raws for source in sources if (raws := source.transactions(batch))), None)
            if raws is None:
                raise NotCheckedError(f"no overlay delivers transaction {batch[0][::-1].hex()}")
            yield from (_parsed(raw) for raw in raws.values())
            batch = [txid for txid in batch if txid not in raws]


def _parsed(raw: bytes) -> Transaction:
    try:
        if len(raw) == NODE_PAIR:
            raise ParseError("it has the size of two nodes of a merkle tree (CVE-2017-12842)")
        return tx.read_exactly(raw)
    except ParseError as error:
        raise NotCheckedError(f"{sha256d(raw)[::-1].hex()} is not a transaction: {error}") from None
