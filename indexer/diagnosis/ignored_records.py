"""Envelopes and MAP records of a transaction that law 7 ignores, and the reasons: their publisher may have intended
them for the registry. They are never stored."""

from __future__ import annotations

from collections.abc import Container, Iterator
from itertools import islice

from indexer.headers.networks import CoinRules
from indexer.model import Event, EventKind
from indexer.resolution.reveals import reveals
from indexer.resolution.verdict import count_of_satoshis, judge_registration
from parsers.bitcoin.tx import Outpoint, Transaction
from parsers.inscriptions import envelope, map_protocol, output_record
from parsers.inscriptions.output_record import OutputRecord
from parsers.reasons import Reason


def ignored_records(transaction: Transaction, rules: CoinRules, judged: Container[Outpoint], limit: int) -> list[Event]:
    """The ignored records outside the outputs `judged`, as rejected events; at most `limit` outputs, or envelopes of
    inputs, are read."""
    if rules.envelope is None:
        return []
    read = _in_inputs if rules.envelope == "witness" else _in_outputs
    events: list[Event] = []
    for vout, record in islice(read(transaction, judged), limit):
        if reasons := _reasons(record, one_sat_rule=rules.envelope == "output"):
            event = Event(
                kind=EventKind.REJECTED, position=len(events), tx_index=0, txid=transaction.txid,
                outpoint=transaction.outpoint(vout) if vout is not None else None, valid=False, reasons=reasons,
            )  # fmt: skip
            events.append(event)
    return events


def _in_outputs(transaction: Transaction, judged: Container[Outpoint]) -> Iterator[tuple[int, OutputRecord]]:
    """Records of outputs; an A2B MAP without an event belongs to a near miss of another output."""
    for vout, output in enumerate(transaction.outputs):
        is_candidate = envelope.MARK in output.script or map_protocol.PREFIX in output.script
        if is_candidate and transaction.outpoint(vout) not in judged:
            record = output_record.read(transaction, vout)
            if record.pointer is None and not output_record.is_for_registry(record.fields):
                yield vout, record


def _in_inputs(transaction: Transaction, _judged: Container[Outpoint]) -> Iterator[tuple[None, OutputRecord]]:
    for reveal in reveals(transaction):
        if judge_registration(reveal.record, elsewhere=False, one_sat_rule=False) is None:
            yield None, reveal.record


def _reasons(record: OutputRecord, *, one_sat_rule: bool) -> tuple[Reason, ...]:
    """Why a record does not concern the registry, in the order of the steps; none where there is no record."""
    if record.inscription is None:
        if record.near:
            return tuple(Reason(code) for code in record.near)
        return (Reason("no-envelope"), _map_reason(record)) if record.map else ()
    reasons = [_map_reason(record)]
    if one_sat_rule and record.satoshis != 1:
        reasons.insert(0, Reason("satoshis", count_of_satoshis(record.satoshis)))
    if not envelope.is_json(record.inscription.content_type):
        reasons.append(Reason("content-type", record.inscription.content_type[:100]))
    return tuple(reasons)


def _map_reason(record: OutputRecord) -> Reason:
    if record.map is None:
        return Reason("no-map")
    if not record.fields:
        return Reason("map-command", " ".join(record.map.commands)[:100])
    map_type = record.fields.get("type", "")
    if map_type == "agent":
        return Reason("map-app", record.fields.get("app", ""))
    spelling = f" (letter case counts: {map_type.lower()})" if output_record.family(map_type.lower()) else ""
    return Reason("map-type", map_type + spelling)
