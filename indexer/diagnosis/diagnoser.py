"""Diagnoses a publisher's transaction step by step: seen, mined, envelope, MAP, JSON, card, newest, listed; or why
not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from indexer.diagnosis import pointer_steps
from indexer.diagnosis.ignored_records import ignored_records
from indexer.diagnosis.source_lookup import MOST_PARTS, SourceTransaction
from indexer.diagnosis.steps import Step, step, steps_of
from indexer.headers.networks import Network, mined
from indexer.model import Event, EventKind, RegistrationState, Status
from indexer.resolution.registration_lookup import RegistrationLookup
from indexer.resolution.session import Origin, may_concern_a2b
from indexer.resolution.transaction_reader import read_alone
from indexer.state_hash import starts_late
from indexer.store import Revision, Store, Unconfirmed
from indexer.store.history import WITHOUT_CARD
from parsers.bitcoin import tx
from parsers.bitcoin.tx import Outpoint, Transaction
from parsers.errors import ParseError, TransactionError
from parsers.reasons import UNPROVED, Reason

MOST_RECORDS = 200
"""The limit of records in a diagnosis, and of outputs read from raw bytes; others are counted."""

MOST_NOW = 16
"""Registrations that a diagnosis shows with their current state, at most."""

MOST_SPENT = 64
"""Spent registrations that a diagnosis of raw bytes explains, at most."""

MOST_BYTES = 4 << 20
"""Bytes of a stored transaction that is read again, at most."""

_KIND_OF = {
    EventKind.INSCRIBED: "registration",
    EventKind.POINTED: "pointer",
    EventKind.REJECTED: "near-miss",
}


class _Provenance(NamedTuple):
    """The texts for where a transaction comes from that is read alone."""

    where: str
    seen: str
    mined: str


_RAW = _Provenance(
    "raw", "given as raw bytes; the registry has not seen it in a block", "not in a block that is indexed"
)
_UNCONFIRMED = _Provenance(
    "mempool", "in the mempool of {chain}; nothing of it is stored, so it is read here alone", "not in a block yet"
)
_MINED = _Provenance(
    "block",
    "known to a source of {chain}; nothing of it is stored, so it is read here alone",
    "in a block, says the source; that block is not indexed, or nothing in it was meant for the registry",
)

MoreSteps = Callable[[Store, Iterable[str]], list[Step]]
"""Steps about listings by id, few or none."""


class Diagnoser:
    """Diagnoses transactions by the store, and others by reading them as if they were mined next: those passed as raw
    bytes, and those that `ask` finds at the sources by their txid (internal byte order). `more_steps` add steps about
    the listings of a stored transaction."""

    def __init__(
        self,
        store: Store,
        networks: Mapping[str, Network],
        ask: Callable[[bytes], SourceTransaction | None] = lambda _: None,
        more_steps: Sequence[MoreSteps] = (),
    ) -> None:
        self._store, self._networks, self._ask, self._more_steps = store, networks, ask, more_steps

    def by_name(self, name: str) -> dict[str, Any]:
        """Diagnose a txid (64 hex digits, perhaps after `0x`) or an outpoint `<txid>_<vout>`, perhaps after `ord://`.
        Raises ValueError for anything else."""
        name = tx.transaction_name(name)
        outpoint = Outpoint.parse(name if len(name) > 64 else f"{name}_0")
        if len(name) > 64:
            stored = self._of_stored(outpoint.txid, outpoint.vout) or self._of_other_output(outpoint)
        else:
            stored = self._with_ignored(self._of_stored(outpoint.txid))
        return stored or self._of_source(outpoint.txid) or self._unseen(outpoint.txid)

    def by_raw(self, raw: bytes) -> dict[str, Any]:
        """Diagnose a raw transaction, for the first chain on which it can be one. Raises ParseError for other bytes."""
        chain, network, transaction = self._parse(raw)
        stored = self._with_ignored(self._of_stored(transaction.txid), transaction)
        return stored or self._alone(transaction, chain, network, _RAW)

    def _parse(self, raw: bytes) -> tuple[str, Network, Transaction]:
        refused: ParseError = TransactionError("no chain is followed that it could be a transaction of")
        for chain, network in self._networks.items():
            try:
                return chain, network, tx.read_exactly(raw, segwit=network.rules.segwit, max_items=MOST_PARTS)
            except ParseError as error:
                refused = error
        raise refused

    def _of_stored(self, txid: bytes, vout: int | None = None) -> dict[str, Any] | None:
        """The diagnosis from events in blocks, or else in mempools, of this transaction; with `vout`, from the events
        in this output or in none. None without events."""
        history, pending = self._store.history, self._store.pending
        if revisions := history.of_transaction(txid, vout, MOST_RECORDS):
            return _counted(self._of_block(txid, revisions), history.count_of_transaction(txid, vout))
        if unconfirmed := pending.of_transaction(txid, vout, MOST_RECORDS):
            return _counted(self._of_mempool(txid, unconfirmed), pending.count_of_transaction(txid, vout))
        return None

    def _of_other_output(self, outpoint: Outpoint) -> dict[str, Any] | None:
        """The diagnosis of an output without events, of a transaction that has some; else None."""
        stored = self._of_stored(outpoint.txid)
        if stored is None:
            return None
        others = ", ".join(record["outpoint"] for record in stored["records"] if record["outpoint"]) or "none"
        detail = f"nothing in output {outpoint.vout} is meant for the registry; outputs of the transaction that are: "
        of_output = [event for event in self._ignored(stored) if event.outpoint == outpoint]
        return stored | {
            "steps": [
                *stored["steps"][:2], *(step for event in of_output for step in steps_of(event)),
                step("output", detail + others, ok=False),
            ],
            "records": [self._ignored_record(event) for event in of_output], "listed": [],
        }  # fmt: skip

    def _with_ignored(
        self, stored: dict[str, Any] | None, transaction: Transaction | None = None
    ) -> dict[str, Any] | None:
        """A diagnosis by events, with the other records of the transaction, where its bytes are passed or stored."""
        if stored is None:
            return None
        others = [self._ignored_record(event) for event in self._ignored(stored, transaction)]
        return {**stored, "records": [*stored["records"], *others]}

    def _ignored(self, stored: dict[str, Any], transaction: Transaction | None = None) -> list[Event]:
        """The records that law 7 leaves out of a transaction with stored events, as far as its bytes are available."""
        network = self._networks.get(stored["source"])
        limit = MOST_RECORDS - len(stored["records"])
        transaction = transaction or (self._stored_transaction(stored, network) if network else None)
        if network is None or transaction is None:
            return []
        judged = {Outpoint.parse(record["outpoint"]) for record in stored["records"] if record["outpoint"]}
        return ignored_records(transaction, network.rules, judged, limit)

    def _stored_transaction(self, stored: dict[str, Any], network: Network) -> Transaction | None:
        """A transaction with events from its stored proof; None without one, and for one that is too large."""
        chain, txid = stored["source"], bytes.fromhex(stored["txid"])[::-1]
        if not 0 < self._store.proofs.sizes(chain, [txid]).get(txid, 0) <= MOST_BYTES:
            return None
        proved = self._store.proofs.get(chain, txid)
        if proved is None:
            return None
        try:
            return tx.read_exactly(proved.proof.raw, segwit=network.rules.segwit, max_items=MOST_PARTS)
        except ParseError:
            return None  # of more parts than are read

    def _of_source(self, txid: bytes) -> dict[str, Any] | None:
        """The diagnosis of a transaction without stored events that a source has."""
        located = self._ask(txid)
        network = self._networks.get(located.chain) if located else None
        if located is None or network is None:
            return None
        transaction = tx.read_exactly(located.raw, segwit=network.rules.segwit)
        return self._alone(transaction, located.chain, network, _UNCONFIRMED if located.unconfirmed else _MINED)

    def _unseen(self, txid: bytes) -> dict[str, Any]:
        hex_id = txid[::-1].hex()
        if (reverted := self._store.outbox.reverted(hex_id)) is not None:
            chain, height = reverted
            detail = (
                f"it was in a block of {chain} above height {height}, which a reorganisation took from the chain "
                "(revert); it is listed again once it is in another block, unless its coins are spent otherwise"
            )
        else:
            detail = (
                "the registry has no record of it: it is not in a block that is indexed, or nothing in it is meant for "
                "the registry; diagnose its raw bytes to see what they would say"
            )
        return {
            "txid": hex_id, "found": False, "where": "nowhere", "source": None,
            "steps": [step("seen", detail, ok=False)], "records": [], "listed": [],
        }  # fmt: skip

    def _of_mempool(self, txid: bytes, pending: list[Unconfirmed]) -> dict[str, Any]:
        chain, event = pending[0]
        unproved = next((reason for reason in event.reasons if reason.code == UNPROVED), None)
        seen = (
            step("seen", unproved.sentence, ok=False, code=UNPROVED)
            if unproved
            else step("seen", f"in the mempool of {chain}")
        )
        others = tuple(reason for reason in event.reasons if reason.code != UNPROVED)
        steps = [seen, step("mined", "not in a block yet", ok=False), *steps_of(replace(event, reasons=others))]
        shown = [entry.event.state for entry in pending if entry.event.state and entry.event.valid]
        listed = list(dict.fromkeys(state.id for state in shown if state.status is Status.LIVE))
        if listed:
            steps.append(step("listed", f"shown as {'undecided' if unproved else 'pending'}: {', '.join(listed)}"))
        return {
            "txid": txid[::-1].hex(), "found": True, "where": "mempool", "confirmations": 0, "source": chain,
            "steps": steps, "records": [self._record(entry.event) for entry in pending], "listed": listed,
        } | self._registrations_now(chain, (entry.event for entry in pending))  # fmt: skip

    def _of_block(self, txid: bytes, revisions: list[Revision]) -> dict[str, Any]:
        where = revisions[0]
        newest = self._store.blocks.newest(where.chain)
        depth = newest.height - where.height + 1 if newest else 1
        records = [self._record(past.event) for past in revisions]
        steps = [
            step("seen", "the transaction is in the registry's records"),
            step(
                "mined", f"in block {where.height:,} of {where.chain}, {depth:,} confirmation{'s' if depth > 1 else ''}"
            ),
            *steps_of(revisions[0].event, mined=mined(self._store.chains().get(where.chain, ""))),
        ]
        listed = self._listed(revisions)
        pointer = revisions[0].event.pointer
        if pointer is not None and revisions[0].event.valid:
            more, pointed = pointer_steps.steps(self._store, revisions[0], pointer)
            steps += more
            listed += [id_ for id_ in pointed if id_ not in listed]
        else:
            steps += self._outcome(revisions[0], listed)
        for steps_about in self._more_steps:
            steps += steps_about(self._store, listed)
        return {
            "txid": txid[::-1].hex(), "found": True, "where": "block", "height": where.height,
            "blockHash": where.hash[::-1].hex(), "confirmations": depth, "source": where.chain,
            "steps": steps, "records": records, "listed": listed,
        } | self._registrations_now(where.chain, (past.event for past in revisions))  # fmt: skip

    def _registrations_now(self, chain: str, events: Iterable[Event]) -> dict[str, Any]:
        """The member `now`: the current states, on this chain, of the first registrations that events are about."""
        ids = list(dict.fromkeys(event.state.id for event in events if event.state))[:MOST_NOW]
        now = []
        for id_, state in self._states_now(chain, ids).items():
            outpoint = str(state.outpoint) if state.outpoint else None
            members = {"outpoint": outpoint, "cardOutpoint": str(state.winner), "owner": state.owner}
            now.append({"id": id_, "status": state.status.value, **members})
        return {"now": sorted(now, key=lambda state: ids.index(state["id"]))} if now else {}

    def _outcome(self, revision: Revision, listed: list[str]) -> list[dict[str, Any]]:
        event = revision.event
        if event.state is None or not event.valid:
            return []
        now = self._states_now(revision.chain, [event.state.id]).get(event.state.id)
        if now is None or event.outpoint is None:
            return []
        if now.status is Status.BURNED:
            if event.kind is EventKind.BURNED:
                return [step("listed", "delisted for good, as this transaction burned the registration")]
            return [step("listed", "the registration was burned later", ok=False)]
        if event.card is not None and now.winner != event.outpoint:
            return [step("newest", f"a later card counts: {now.winner}", ok=False)]
        steps = [step("newest", "no later card has been inscribed")] if event.card is not None else []
        return [*steps, step("listed", f"listed as {', '.join(listed)}", ok=bool(listed))]

    def _states_now(self, chain: str, ids: Iterable[str]) -> dict[str, RegistrationState]:
        """The current states of registrations on a chain, by id: not by their histories, which strangers make long."""
        newest = self._store.registrations.newest_events(chain, set(ids))
        return {id_: event.state for id_, event in newest.items() if event.state is not None}

    def _listed(self, revisions: Sequence[Revision]) -> list[str]:
        """The live registrations that have their newest card or outpoint from these revisions."""
        ids = []
        for chain in dict.fromkeys(past.chain for past in revisions):
            of_chain = [past.event for past in revisions if past.chain == chain and past.event.state is not None]
            states = self._states_now(chain, [event.state.id for event in of_chain if event.state])
            for event in of_chain:
                now = states.get(event.state.id) if event.state else None
                if now and now.status is Status.LIVE and event.outpoint in (now.winner, now.outpoint):
                    ids.append(now.id)
        return list(dict.fromkeys(ids))

    def _alone(self, transaction: Transaction, chain: str, network: Network, seen: _Provenance) -> dict[str, Any]:
        """Read a transaction as if the next block held nothing else."""
        newest = self._store.blocks.newest(chain)
        registrations_now = _PastRegistrations(self._store)
        values = self._store.content.output_values(spent.prevout for spent in transaction.inputs)
        height = newest.height + 1 if newest else 0
        part, left_out = _first_outputs(transaction)
        origins: dict[Outpoint, Origin] | None = {} if starts_late(self._store, chain) else None
        read = read_alone(
            part, height, network.rules, network.kind, RegistrationLookup(registrations_now, chain), values, origins
        )
        ordered = sorted(read.reading.events, key=_importance)
        events = ordered[:MOST_RECORDS]
        records = [self._record(event, registrations_now.conflict(event)) for event in events]
        judged = {event.outpoint for event in ordered if event.outpoint}
        ignored = ignored_records(part, network.rules, judged, MOST_RECORDS - len(events))
        records += map(self._ignored_record, ignored)
        steps = [
            step("seen", seen.seen.format(chain=chain)),
            step("mined", seen.mined, ok=seen is _MINED),
        ]
        if events:
            steps += steps_of(events[0], registrations_now.conflict(events[0]))
        elif ignored:
            steps += steps_of(ignored[0])
        else:
            steps.append(step("envelope", "nothing in it is meant for the registry", ok=False, code="no-envelope"))
        diagnosis = {
            "txid": transaction.hex_id, "found": True, "where": seen.where, "source": chain, "steps": steps,
            "records": records, "listed": [],
        }  # fmt: skip
        return _counted(diagnosis, len(ordered) + len(ignored) + left_out)

    def _ignored_record(self, event: Event) -> dict[str, Any]:
        return self._record(event) | {"outcome": "ignored"}

    def _record(self, event: Event, conflict: Reason | None = None) -> dict[str, Any]:
        reasons = [*([conflict] if conflict else []), *event.reasons]
        record: dict[str, Any] = {
            "outpoint": str(event.outpoint) if event.outpoint else None,
            "kind": _KIND_OF.get(event.kind, "update" if event.state else "registration"),
            "outcome": event.kind.value,
            "valid": event.valid and conflict is None,
            "owner": event.owner,
            "cardSha256": event.card.hex() if event.card else None,
            "map": event.state.map if event.state else None,
            "signer": event.signer,
            "reasons": [{"code": reason.code, "detail": reason.sentence} for reason in reasons],
        }
        if event.state is not None:
            record["id"] = event.state.id
        if event.pointer is not None:
            anchor = event.pointer
            digest = anchor.digest.hex() if anchor.digest is not None else None
            pointer = {"domain": anchor.domain, "hash": digest, "uri": anchor.uri, "form": anchor.form}
            record |= {"pointer": pointer} | ({"id": anchor.id} if anchor.id else {})
        return record


def _first_outputs(transaction: Transaction) -> tuple[Transaction, int]:
    """The transaction with the scripts of its first MOST_RECORDS outputs that may concern A2B, and how many more: those
    are left out, while every output keeps its satoshis, on which depends where registrations go."""
    candidates = [vout for vout, output in enumerate(transaction.outputs) if may_concern_a2b(output.script)]
    silent = set(candidates[MOST_RECORDS:])
    if not silent:
        return transaction, 0
    outputs = (
        output._replace(script=b"") if vout in silent else output for vout, output in enumerate(transaction.outputs)
    )
    return transaction._replace(outputs=tuple(outputs)), len(silent)


def _counted(diagnosis: dict[str, Any], count: int) -> dict[str, Any]:
    """A diagnosis, with a step that counts how many of `count` records are left out, where any are."""
    left_out = count - len(diagnosis["records"])
    if left_out <= 0:
        return diagnosis
    detail = f"{len(diagnosis['records']):,} records are shown, and {left_out:,} more are left out; ask for one output"
    return {**diagnosis, "moreRecords": left_out, "steps": [*diagnosis["steps"], step("more", detail)]}


def _importance(event: Event) -> bool:
    """A sorting key: events that brought a card, or failed to, before what merely moved or ended a registration."""
    return event.kind in WITHOUT_CARD


class _PastRegistrations:
    """Registrations at outpoints now, and for outpoints spent since then as they were, to explain a lost update."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._left: dict[Outpoint, Revision] = {}

    def at_outpoints(self, chain: str, outpoints: Iterable[Outpoint]) -> dict[Outpoint, list[RegistrationState]]:
        """The registrations that are at these outpoints, or were last."""
        requested = list(outpoints)
        registrations = self._store.registrations.at_outpoints(chain, requested)
        gone = self._store.registrations.departed(
            chain, [outpoint for outpoint in requested if outpoint not in registrations]
        )
        for outpoint in [outpoint for outpoint in requested if outpoint in gone][:MOST_SPENT]:
            spends = [past for past in self._store.history.departures(outpoint) if past.chain == chain]
            if spends:
                self._left[outpoint] = spends[0]
                registrations[outpoint] = [
                    past.event.state for past in self._store.history.arrivals(outpoint) if past.event.state is not None
                ]
        return registrations

    def conflict(self, event: Event) -> Reason | None:
        """Why this event cannot happen any more: another transaction spent the registration's satoshi."""
        taken = self._left.get(event.spent) if event.spent else None
        if taken is None:
            return None
        return Reason("spent-elsewhere", f"{taken.event.txid[::-1].hex()} in block {taken.height:,}")
