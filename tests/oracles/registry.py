"""A slow, obvious reader of a whole chain: what laws 1 to 8 and 18 say about it, in the sample chain's words.

Every satoshi gets a serial number when it is mined, and every output a list of the serial numbers it holds. A
registration is a serial number. There is no cleverness, no undo and no sharing of code with the indexer:

    registry = Registry()
    for raw in blocks:                   # the active chain from genesis, as raw bytes
        registry.add_block(raw)
    registry.registrations, registry.pointers, registry.rejected, registry.state_hashes[height], registry.state_lines()
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable
from hashlib import sha256
from typing import Any

from tests.oracles.hard_rules import faults
from tests.oracles.scripts import TRUNCATED, OutputContents, say
from tests.oracles.wire import Tape, Tx, read_block, read_tx

Record = dict[str, Any]
Ranges = list[tuple[int, int]]

AGENT_TYPES = ("a2b-agent", "a2b", "agent")
NUMBERS = {0: "no satoshis", 2: "two satoshis"}


class Registry:
    """All that the blocks added so far say. Lists are in chain order; `network` decides how addresses look."""

    segwit = False

    def __init__(self, network: str = "regtest") -> None:
        self.network = network
        self.height = -1
        self.registrations: list[Record] = []
        self.pointers: list[Record] = []
        self.rejected: list[Record] = []
        self.reasons: dict[str, list[str]] = {}
        self.state_hashes: dict[int, str] = {}
        self.changes: list[tuple[str, Record]] = []
        self._followed: dict[int, Record] = {}
        self._held: dict[str, Ranges] = {}
        self._next_serial = 0

    def add_block(self, raw: bytes) -> None:
        """Read the next block."""
        self.height += 1
        self.add(read_block(raw, segwit=self.segwit))
        self.state_hashes[self.height] = sha256(self.state_lines().encode()).hexdigest()

    def unconfirmed(self, raws: Iterable[bytes]) -> list[tuple[str, Record]]:
        """The changes that these transactions would make on top of the newest block: txid and change, as in
        mempool.json."""
        ahead = copy.deepcopy(self)
        ahead.changes = []
        ahead.add([read_tx(Tape(raw), segwit=self.segwit) for raw in raws])
        return ahead.changes

    def state_lines(self) -> str:
        """The text whose SHA-256 is the state hash (law 18)."""
        lines = []
        for registration in sorted(self.registrations, key=lambda item: item["id"].encode()):
            names = ("id", "status", "outpoint", "owner", "cardSha256", "updatedHeight")
            lines.append(
                "\t".join("-" if registration[name] is None else str(registration[name]) for name in names) + "\n"
            )
        return "".join(lines)

    def ids(self, status: str) -> set[str]:
        """The ids of the registrations that are `live` or `burned`."""
        return {registration["id"] for registration in self.registrations if registration["status"] == status}

    def add(self, txs: list[Tx]) -> None:
        """Read transactions parents first, however they are ordered (law 3b)."""
        waiting = list(enumerate(txs))
        while waiting:
            txids = {tx.txid for _, tx in waiting}
            ready = next(pair for pair in waiting if not txids & {spent[:64] for spent in pair[1].spends})
            waiting.remove(ready)
            self._read(ready[1], ready[0])
        for records in (self.pointers, self.rejected):
            records.sort(key=lambda item: (item["height"], item["txIndex"], int((item["outpoint"] or "0" * 66)[65:])))
        self.registrations.sort(key=lambda item: (*_born(item), int(item["id"][65:].partition("#")[0]), item["id"]))

    def _read(self, tx: Tx, index: int) -> None:
        """One transaction: share out the satoshis, then ask each output what it says of the one it holds."""
        pool, outs = self._share_out(tx)
        for vout, ranges in enumerate(outs):
            self._held[f"{tx.txid}_{vout}"] = ranges
        messages = [say(out.script, self.network) for out in tx.outs]
        position = {"txid": tx.txid, "height": self.height, "txIndex": index}
        new = self._first_records(tx, outs, messages)
        for serial in [serial for start, size in pool for serial in self._within(start, size)]:
            self._follow(serial, tx, outs, messages, position, new)
        for vout, card_kind in new.items():
            self._register(outs[vout][0][0], vout, card_kind, messages[vout], position)
        held = {vout for vout, ranges in enumerate(outs) if tx.outs[vout].satoshis == 1 and self._is_followed(ranges)}
        for vout in range(len(outs)):
            if vout not in held:
                self._look_closer(tx, vout, messages, position)

    def _share_out(self, tx: Tx) -> tuple[Ranges, list[Ranges]]:
        """All satoshis of the inputs, and those of each output: first in, first out. The rest is the fee."""
        if tx.is_coinbase:
            size = sum(out.satoshis for out in tx.outs)
            pool = [(self._next_serial, size)]
            self._next_serial += size
        else:
            pool = [item for spent in tx.spends for item in self._held.pop(spent)]
        rest, outs = list(pool), []
        for out in tx.outs:
            taken, rest = _take(rest, out.satoshis)
            outs.append(taken)
        return pool, outs

    def _within(self, start: int, size: int) -> list[int]:
        return sorted(serial for serial in self._followed if start <= serial < start + size)

    def _is_followed(self, ranges: Ranges) -> bool:
        return ranges[0][0] in self._followed

    def _first_records(self, tx: Tx, outs: list[Ranges], messages: list[OutputContents]) -> dict[int, str]:
        """The outputs that make a registration of a satoshi that carries none, with its kind (law 1)."""
        results = {}
        for vout, out in enumerate(tx.outs):
            kind = first_kind(messages[vout].map)
            if out.satoshis == 1 and not self._is_followed(outs[vout]) and kind and _is_card(messages[vout], kind):
                results[vout] = kind
        return results

    def _register(self, serial: int, vout: int, kind: str, message: OutputContents, position: Record) -> None:
        assert message.envelope is not None
        outpoint = f"{position['txid']}_{vout}"
        record: Record = {
            "id": outpoint,
            "type": kind,
            "map": dict(message.map),
            "status": "live",
            "outpoint": outpoint,
            "owner": message.owner,
            "revisions": [],
        }
        self._followed[serial] = record
        self.registrations.append(record)
        self._win(record, outpoint, message.envelope.body)
        self._revise(record, "inscribed", outpoint, message, position, card=message.envelope.body)

    def _follow(
        self,
        serial: int,
        tx: Tx,
        outs: list[Ranges],
        messages: list[OutputContents],
        position: Record,
        new: dict[int, str],
    ) -> None:
        """Where a registered satoshi went, and what is said there (laws 3, 4, 5)."""
        created = self._followed[serial]
        where = [vout for vout, ranges in enumerate(outs) if any(a <= serial < a + n for a, n in ranges)]
        if not where:
            self._burn(serial, None, "to the fee", position)
        elif tx.outs[where[0]].satoshis > 1:
            reason = "into an output of more than one satoshi"
            displaced_by = [vout for vout in new if vout < where[0]]
            if displaced_by:
                reason = f"into the change: another satoshi took output {displaced_by[0]}"
            self._burn(serial, f"{tx.txid}_{where[0]}", reason, position)
        else:
            outpoint = f"{tx.txid}_{where[0]}"
            created["outpoint"], created["owner"] = outpoint, messages[where[0]].owner
            self._hear(created, outpoint, messages[where[0]], position)

    def _hear(self, record: Record, outpoint: str, message: OutputContents, position: Record) -> None:
        """Apply the content of the output that now holds a registered satoshi (law 4)."""
        if message.envelope is None and not message.map:
            self._revise(record, "moved", outpoint, message, position)
            return
        kind = later_kind(message.map["type"]) if "type" in message.map else record["type"]
        reason = ""
        if message.envelope is not None and not message.envelope.is_json:
            reason = "content type is not JSON"
        elif kind is None:
            reason = "MAP type is not an A2B type"
        elif kind != record["type"]:
            reason = f"{_a(record['type'])} does not become {_a(kind)}"
        if reason:
            self._revise(record, "foreign_content", outpoint, message, position, reason=reason)
        elif message.envelope is None:
            record["map"].update(message.map)
            self._revise(record, "map_only", outpoint, message, position)
        else:
            self._judge(record, outpoint, message, position)

    def _judge(self, record: Record, outpoint: str, message: OutputContents, position: Record) -> None:
        assert message.envelope is not None
        body = message.envelope.body
        wrong = message.envelope.encoded or faults(body, record["type"])
        if wrong:
            self._revise(record, "invalid", outpoint, message, position, card=body, reason=wrong[0])
            return
        record["map"].update(message.map)
        self._win(record, outpoint, body)
        self._revise(record, "reinscribed", outpoint, message, position, card=body)

    def _win(self, record: Record, outpoint: str, body: bytes) -> None:
        record["winner"], record["updatedHeight"] = outpoint, self.height
        record["card"], record["cardSha256"] = json.loads(body), sha256(body).hexdigest()

    def _burn(self, serial: int, outpoint: str | None, reason: str, position: Record) -> None:
        popped = self._followed.pop(serial)
        popped["status"], popped["outpoint"], popped["owner"] = "burned", None, None
        self._revise(popped, "burned", outpoint, None, position, reason=reason)

    def _revise(
        self,
        record: Record,
        kind: str,
        outpoint: str | None,
        message: OutputContents | None,
        position: Record,
        card: bytes | None = None,
        reason: str = "",
    ) -> None:
        record["lastHeight"] = self.height
        revision = {
            "outpoint": outpoint,
            **position,
            "kind": kind,
            "cardSha256": None if card is None else sha256(card).hexdigest(),
            "valid": kind not in ("invalid", "foreign_content"),
            "reason": reason,
            "owner": message.owner if message else None,
        }
        record["revisions"].append(revision)
        change = {name: revision[name] for name in ("kind", "outpoint", "owner", "cardSha256", "reason")}
        change["registration"] = None if kind == "inscribed" else record["id"]
        change["map"] = message.map if message and message.map else None
        self.changes.append((position["txid"], {**change, "pointer": None}))

    def _look_closer(self, tx: Tx, vout: int, messages: list[OutputContents], position: Record) -> None:
        """Pointers, and what looks meant for us but is not accepted (laws 7 and 8)."""
        outpoint = f"{tx.txid}_{vout}"
        pointer = messages[vout].pointer
        if pointer:
            self.pointers.append({"outpoint": outpoint, **position, **pointer})
            change = {"kind": "pointer", "registration": None, "outpoint": outpoint, "owner": None, "map": None}
            self.changes.append((tx.txid, {**change, "cardSha256": None, "reason": "", "pointer": pointer}))
            return
        reasons = near_miss(tx, vout, messages)
        if reasons:
            self.rejected.append({"outpoint": outpoint, **position, "reason": reasons[0]})
            self.reasons[outpoint] = reasons


def read_chain(blocks: Iterable[bytes], network: str = "regtest") -> Registry:
    """The registry of a whole chain of raw blocks, from genesis."""
    registry = Registry(network)
    for raw in blocks:
        registry.add_block(raw)
    return registry


def first_kind(message: dict[str, str]) -> str | None:
    """The kind that a first record's MAP makes it, or None (law 1)."""
    if message.get("type") == "agent" and message.get("app") != "bsv-mcp":
        return None
    return later_kind(message.get("type", ""))


def later_kind(type_: str) -> str | None:
    """The kind that a MAP type names, once it is a registration's (law 4)."""
    return "agent" if type_ in AGENT_TYPES else "tool" if type_ == "a2b-mcp" else None


def claims(message: dict[str, str]) -> bool:
    """Whether MAP fields look meant for the registry (law 7)."""
    return message.get("type") == "agent" or message.get("type", "").startswith("a2b")


def near_miss(tx: Tx, vout: int, messages: list[OutputContents]) -> list[str]:
    """Every reason why an output that looks meant for us is not accepted; empty when it does not look so."""
    here, others = messages[vout], messages[:vout] + messages[vout + 1 :]
    meant = claims(here.map) or claims(here.unset)
    if here.envelope is None:
        if here.fault == TRUNCATED and here.fault_is_json:
            return [here.fault]
        partner = any(item.envelope and item.envelope.is_json and not item.map for item in others)
        if not meant or (partner and not here.fault):
            return []
        if here.fault:
            return [here.fault]
        return ["the envelope is only bytes inside a push" if here.in_push else "no ord envelope"]
    elsewhere = any(claims(item.map) and not item.envelope and not item.pointer for item in others)
    if here.envelope.is_json and not here.map:
        meant = meant or elsewhere or any(not faults(here.envelope.body, kind) for kind in ("agent", "tool"))
    return _what_is_wrong(tx.outs[vout].satoshis, here, elsewhere) if meant else []


def _what_is_wrong(satoshis: int, here: OutputContents, elsewhere: bool) -> list[str]:
    assert here.envelope is not None
    kind = first_kind(here.map)
    reasons = []
    if satoshis != 1:
        reasons.append(f"the output holds {NUMBERS.get(satoshis, f'{satoshis} satoshis')}")
    if claims(here.unset) and not here.map:
        reasons.append("the MAP command is not SET")
    elif not here.map:
        reasons.append("MAP is in another output" if elsewhere else "no MAP record")
    elif kind is None:
        named = here.map.get("type") == "agent"
        reasons.append("MAP type agent belongs to app bsv-mcp only" if named else "MAP type is not an A2B type")
    if not here.envelope.is_json:
        reasons.append("content type is not JSON")
    elif kind:
        reasons += here.envelope.encoded or faults(here.envelope.body, kind)
    return reasons


def _is_card(message: OutputContents, kind: str) -> bool:
    envelope = message.envelope
    return envelope is not None and envelope.is_json and not (envelope.encoded or faults(envelope.body, kind))


def _take(pool: Ranges, size: int) -> tuple[Ranges, Ranges]:
    """Split off the first `size` satoshis of a list of ranges."""
    taken, rest = [], list(pool)
    while size:
        start, length = rest.pop(0)
        part = min(size, length)
        taken.append((start, part))
        size -= part
        if part < length:
            rest.insert(0, (start + part, length - part))
    return taken, rest


def _born(registration: Record) -> tuple[int, int]:
    first = registration["revisions"][0]
    return first["height"], first["txIndex"]


def _a(kind: str) -> str:
    return "an agent" if kind == "agent" else "a tool"
