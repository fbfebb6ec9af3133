"""Admits a transaction with its BEEF: proofs against our own headers, scripts, fees, and then the registry's rules, as
if the transaction were mined next. What is admitted is stored, and counts as unconfirmed from then on."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

from indexer.admission.scripts import check_scripts
from indexer.errors import NotAdmittedError
from indexer.headers.networks import NETWORKS, RULES
from indexer.model import BlockFacts, Event, Status
from indexer.resolution.block_reader import read_unconfirmed
from indexer.resolution.registration_lookup import RegistrationLookup
from indexer.store import Store
from indexer.store.submissions import DoubleSpendError, Share, Submission
from parsers.bitcoin import beef as beefs
from parsers.bitcoin import bump as bumps
from parsers.bitcoin.beef import Beef, BeefTransaction
from parsers.bitcoin.bump import MerklePath
from parsers.bitcoin.tx import Outpoint, Transaction, read_exactly, values_of
from parsers.bitcoin.watched_outpoints import WatchedOutpoints
from parsers.cards import ToolConfig, examine
from parsers.errors import ParseError

MAX_BEEF_BYTES = 32 << 20
MAX_ITEMS, MAX_TRANSACTIONS, MAX_UNPROVEN_INPUTS = 200_000, 2_000, 2_000
"""Merkle paths, their nodes, transactions, inputs and outputs together; transactions; inputs with checked scripts:
within a second of one core."""

FEE_BYTES = 1_000
"""Bytes of an unmined transaction for which a satoshi of fee is due, one at least: what nodes relay by default."""

_FINAL, _TIMES, _MEDIAN_OF = 0xFFFFFFFF, 500_000_000, 11
"""The sequence number of a final input; lock times from here on are times, compared with the median of blocks."""

_NO_ROOT = "merkle root {} is not that of the chain's block {:,}"

PREFIX = "bsv:"
"""CAIP-2 ids of BSV chains begin so."""


@dataclass(frozen=True, slots=True)
class Admission:
    """The result of a submission: output numbers that are in the registry now, and inputs that spent a registration's
    output; its history retains them (BRC-22). `txid` is in internal byte order."""

    txid: bytes
    outputs: tuple[int, ...]
    retained: tuple[int, ...]

    def as_json(self) -> dict[str, list[int]]:
        """The answer for one topic."""
        return {"outputsToAdmit": list(self.outputs), "coinsToRetain": list(self.retained)}


class Admissions:
    """Verifies and stores submissions; several threads may use it at once."""

    def __init__(self, store: Store) -> None:
        self._store, self.submissions = store, store.submissions

    def submit(self, data: bytes, client: str = "") -> Admission:
        """Admit the newest transaction of a BEEF from a client; a repeated one gets the same answer. When this returns,
        everything is stored. Raises NotAdmittedError, FullError, StoreError."""
        beef = _parsed(data)
        chain = self._chain(beef)
        earlier = self._earlier_answer(chain, beef)
        if earlier is not None:
            return earlier
        self._verify(chain, beef)
        reading = _Reading(self._store, chain, beef)
        admission = reading.admission()
        if not admission.outputs and not admission.retained:
            return admission
        if departed := self._store.registrations.departed(chain, reading.spends()):
            raise NotAdmittedError("double-spend", f"{min(departed)} is spent already by a transaction in a block")
        try:
            rows = reading.submissions(json.dumps(admission.as_json()), data)
            self.submissions.add(chain, rows, Share(reading.owner(), client))
        except DoubleSpendError as error:
            raise NotAdmittedError("double-spend", str(error)) from None
        return admission

    def reject(self, txid: bytes) -> int:
        """Delete a submitted transaction that is in no block, and its descendants; returns their number. Raises
        StoreError."""
        holders = [chain for chain in self._chains() if txid in self.submissions.pending(chain)]
        return sum(self.submissions.drop(chain, [txid]) for chain in holders)

    def is_mined(self, txid: bytes, path: str) -> bool:
        """Whether a merkle path (BRC-74, hex) proves that a transaction is in a block of one of our chains; False where
        no chain has a block of that height yet. Raises NotAdmittedError for another path."""
        try:
            proof = bumps.read(bytes.fromhex(path))
            root = proof.root(txid)
        except (ParseError, ValueError) as error:
            raise NotAdmittedError("not-proved", f"the merkle path: {error}") from None
        if any(self._is_root(chain, proof) for chain in self._chains()):
            return True
        if all(self._store.headers.run(chain, proof.height, 1) for chain in self._chains()):
            raise NotAdmittedError("not-proved", _NO_ROOT.format(root[::-1].hex(), proof.height))
        return False

    def unknown(self, txids: Collection[bytes]) -> set[bytes]:
        """The txids (internal byte order) that have no event in a block and were not submitted, of those passed in."""
        stored = set[bytes]()
        for chain in self._chains():
            stored |= self._store.history.in_blocks(chain, txids) | self.submissions.stored(chain, txids)
        return set(txids) - stored

    def _chains(self) -> list[str]:
        """The configured names of BSV chains."""
        return [name for name, caip2 in self._store.chains().items() if caip2.startswith(PREFIX)]

    def _earlier_answer(self, chain: str, beef: Beef) -> Admission | None:
        """The answer for a transaction that was submitted before, or has events in an indexed block: then no merkle
        path may contradict our headers. Raises NotAdmittedError."""
        txid = beef.newest.txid
        steak = self.submissions.steak(chain, txid)
        if steak is not None:
            stored = json.loads(steak)
            return Admission(txid, tuple(stored["outputsToAdmit"]), tuple(stored["coinsToRetain"]))
        mined = [past.event for past in self._store.history.of_transaction(txid) if past.chain == chain]
        proved = self._store.proofs.get(chain, txid) if mined else None
        if proved is None:
            return None
        for path in beef.paths:
            if not self._is_root(chain, path):
                raise NotAdmittedError("not-proved", _NO_ROOT.format(path.merkle_root[::-1].hex(), path.height))
        return admission_of(read_exactly(proved.proof.raw), mined)

    def _chain(self, beef: Beef) -> str:
        """The configured name of the BSV chain that the proofs are of. Raises NotAdmittedError without any."""
        chains = self._chains()
        if not chains:
            raise NotAdmittedError("no-chain", "this overlay follows no BSV chain")
        return next((name for name in chains if beef.paths and self._is_root(name, beef.paths[0])), chains[0])

    def _is_root(self, chain: str, path: MerklePath) -> bool:
        headers = self._store.headers.run(chain, path.height, 1)
        return bool(headers) and headers[0][36:68] == path.merkle_root

    def _verify(self, chain: str, beef: Beef) -> None:
        """Verify proofs, scripts and fees of everything that a merkle path does not prove. Raises NotAdmittedError."""
        paths = {(path.height, path.merkle_root): path for path in beef.paths}
        try:
            inputs = beefs.verify(beef, lambda height, root: self._is_root(chain, paths[height, root]))
        except ParseError as error:
            raise NotAdmittedError("not-proved", str(error)) from None
        if len(inputs) > MAX_UNPROVEN_INPUTS:
            detail = f"the scripts of {len(inputs):,} inputs must be checked: at most {MAX_UNPROVEN_INPUTS:,} are"
            raise NotAdmittedError("too-many-inputs", detail)
        paid: dict[bytes, int] = {}
        for unproven in inputs:
            paid[unproven.tx.txid] = paid.get(unproven.tx.txid, 0) + unproven.spent.satoshis
        for member in beef.members:
            if member.tx is not None and member.txid in paid:
                _check_fee(member.tx, paid[member.txid])
                self._check_final(chain, member.tx)
        check_scripts(inputs)

    def _check_final(self, chain: str, tx: Transaction) -> None:
        """Refuse a transaction that the next block cannot hold yet (BIP 113)."""
        if not tx.locktime or all(spent.sequence == _FINAL for spent in tx.inputs):
            return
        newest = self._store.blocks.newest(chain)
        limit = newest.height + 1 if newest else 0
        if tx.locktime >= _TIMES:
            first = max(0, limit - _MEDIAN_OF)
            times = sorted(
                int.from_bytes(raw[68:72], "little") for raw in self._store.headers.run(chain, first, limit - first)
            )
            limit = times[len(times) // 2] if times else 0
        if tx.locktime >= limit:
            raise NotAdmittedError("not-final", f"transaction {tx.hex_id} is not final before {tx.locktime:,}")


def _parsed(data: bytes) -> Beef:
    try:
        beef = beefs.read(data, MAX_ITEMS)
    except ParseError as error:
        raise NotAdmittedError("not-a-beef", str(error)) from None
    if len(beef.members) > MAX_TRANSACTIONS:
        detail = f"the BEEF holds {len(beef.members):,} transactions: at most {MAX_TRANSACTIONS:,} are read"
        raise NotAdmittedError("too-many-ancestors", detail)
    bare = next((member for member in beef.members if member.tx is None), None)
    if bare is not None:
        detail = (
            f"transaction {bare.txid[::-1].hex()} is only a txid: send it whole, with its merkle path or its parents"
        )
        raise NotAdmittedError("txid-only", detail)
    return beef


def _check_fee(tx: Transaction, paid: int) -> None:
    fee, due = paid - sum(output.satoshis for output in tx.outputs), max(1, tx.size // FEE_BYTES)
    if fee < due:
        raise NotAdmittedError(
            "fee-too-low", f"transaction {tx.hex_id} pays {fee:,} satoshis for {tx.size:,} bytes: {due:,} are due"
        )


class _Reading:
    """The transactions of a verified BEEF that no indexed block holds, read as if they were mined next."""

    def __init__(self, store: Store, chain: str, beef: Beef) -> None:
        self._store, self._chain, self._beef = store, chain, beef
        newest = store.blocks.newest(chain)
        self._height = newest.height if newest else -1
        open_members = [member for member in beef.members if self._is_open(member)]
        mined = store.history.in_blocks(chain, [member.txid for member in open_members])
        self._members = [member for member in open_members if member.txid not in mined]

    def _is_open(self, member: BeefTransaction) -> bool:
        """Whether a transaction is in no indexed block by its proof."""
        return member.path is None or self._beef.paths[member.path].height > self._height

    def spends(self) -> list[Outpoint]:
        """The outpoints that the transactions spend."""
        return [spent.prevout for tx in self._transactions for spent in tx.inputs]

    @cached_property
    def _transactions(self) -> list[Transaction]:
        return [member.tx for member in self._members if member.tx is not None]

    def admission(self) -> Admission:
        """The admission of the subject; empty where a block that is indexed already holds it without an event."""
        subject = self._beef.newest
        if subject.tx is None or subject not in self._members:
            return Admission(subject.txid, (), ())
        return admission_of(subject.tx, [event for event in self._read.events if event.txid == subject.txid])

    @cached_property
    def _read(self) -> BlockFacts:
        caip2 = self._store.chains()[self._chain]
        kind = next(network.kind for network in NETWORKS if network.caip2 == caip2)
        watched = WatchedOutpoints(self.spends())
        registry = RegistrationLookup(self._store.registrations, self._chain)
        read = read_unconfirmed(
            self._transactions, RULES["bsv"], kind, watched, registry, {}, self._values()
        )  # fmt: skip
        return read.reading

    def _values(self) -> Mapping[Outpoint, int]:
        """The values of all outputs in the BEEF that these transactions spend."""
        outputs = {member.txid: member.tx.outputs for member in self._beef.members if member.tx is not None}
        return values_of(self.spends(), outputs)

    def owner(self) -> bytes:
        """The SHA-256 of the script of the first coin, in the order of the BEEF, that these transactions spend of one
        with a merkle path: others are free to make."""
        proved = {member.txid: member.tx for member in self._beef.members if member.tx and member.path is not None}
        coin = next((coin for coin in self.spends() if coin.txid in proved), None)
        return sha256(proved[coin.txid].outputs[coin.vout].script if coin else b"").digest()

    def submissions(self, steak: str, data: bytes) -> list[Submission]:
        """The rows to store: ancestors first, the subject with its answer and proof."""
        subject, listings = self._beef.newest.txid, self._listings()
        return [
            Submission(
                txid=member.txid, raw=member.raw or b"", spends=tuple(spent.prevout for spent in member.tx.inputs),
                listings=tuple(listings[member.txid]),
                steak=steak if member.txid == subject else None, beef=data if member.txid == subject else None,
            )
            for member in self._members
            if member.tx is not None
        ]  # fmt: skip

    def _listings(self) -> Mapping[bytes, list[int]]:
        """How many listings each record of these transactions makes or changes; one that is refused counts as one."""
        listings, bodies = defaultdict[bytes, list[int]](list), dict(self._read.cards.items())
        for event in self._read.events:
            body = bodies.get(event.card or b"")
            card = examine(body, event.state.kind).card if body and event.state else None
            listings[event.txid].append(len(card.servers) if isinstance(card, ToolConfig) else 1)
        return listings


def admission_of(tx: Transaction, events: Iterable[Event]) -> Admission:
    """The outputs and inputs that the events of a transaction admit and retain."""
    about = [event for event in events if event.state is not None]
    outputs = {
        event.state.outpoint.vout
        for event in about
        if event.state and event.state.outpoint and event.state.status is Status.LIVE
        if event.state.outpoint.txid == tx.txid
    }
    spent = {event.spent for event in about if event.spent is not None}
    retained = (vin for vin, spending in enumerate(tx.inputs) if spending.prevout in spent)
    return Admission(tx.txid, tuple(sorted(outputs)), tuple(retained))
