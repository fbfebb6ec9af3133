"""Law 3a read the slow and obvious way: envelopes in tapscripts (BTC, LTC), satoshis followed with their offsets."""

from __future__ import annotations

from tests.oracles.hard_rules import faults
from tests.oracles.ordinals import Revealed, inscriptions
from tests.oracles.registry import Ranges, Record, Registry, first_kind
from tests.oracles.scripts import Envelope, OutputContents, map_fields, operations, say
from tests.oracles.wire import Tx


class WitnessRegistry(Registry):
    """The registry of a chain with witnesses. Rejections name the outpoint that receives the satoshi.

    Where the law leaves a choice: an in-envelope MAP field silences the transaction's tape for that envelope; the tape
    is heard by every registered satoshi of the transaction that has no envelope; the envelope's number decides between
    first records that land in one output, and which of the registrations on one satoshi a later card updates.
    """

    segwit = True

    def __init__(self, network: str = "regtest") -> None:
        super().__init__(network)
        self._sharing: dict[int, list[Record]] = {}

    def _read(self, tx: Tx, index: int) -> None:
        sizes = [sum(size for _, size in self._held[spent]) for spent in tx.spends] if not tx.is_coinbase else []
        stacks = list(tx.witnesses)[: len(sizes)]
        pool, outs = self._share_out(tx)
        for vout, ranges in enumerate(outs):
            self._held[f"{tx.txid}_{vout}"] = ranges
        tape, position = _tape(tx), {"txid": tx.txid, "height": self.height, "txIndex": index}
        existing = [serial for start, size in pool for serial in self._within(start, size)]
        faults_of: set[tuple[int, str]] = set()
        updates: dict[int, list[OutputContents]] = {}
        new: list[tuple[int, int, OutputContents]] = []
        for number, revealed in inscriptions(stacks):
            words = _contents(revealed.envelope, tape)
            unbound = _why_unbound(revealed, number, sizes, outs)
            if revealed.fault or unbound:
                if (number, revealed.fault) in faults_of and revealed.fault:
                    continue  # of one fault the first that is meant for the registry counts
                if revealed.fault and is_named(words.map):
                    faults_of.add((number, revealed.fault))
                self._miss(revealed, words, unbound, position)
                continue
            serial = _inscribed(revealed, sum(sizes[:number]), pool, outs)
            if serial in existing and not self._is_lost(serial, tx, outs):
                updates.setdefault(serial, []).append(words)
            else:
                new.append((serial, revealed.number, words))
        for serial in existing:
            self._carry_on(
                serial, tx, outs, updates.get(serial) or [_contents(None, tape)], _contents(None, tape), position
            )
        for serial, number, words in new:
            self._consider(serial, number, tx, outs, words, position)
        for vout, out in enumerate(tx.outs):
            pointer = say(out.script, self.network).pointer
            if pointer:
                self.pointers.append({"outpoint": f"{tx.txid}_{vout}", **position, **pointer})

    def _is_lost(self, serial: int, tx: Tx, outs: list[Ranges]) -> bool:
        vout = _where(serial, outs)
        return vout is None or _unspendable(tx.outs[vout].script)

    def _miss(self, revealed: Revealed, words: OutputContents, unbound: str, position: Record) -> None:
        """An envelope that inscribes no satoshi is a near miss if it is meant for the registry."""
        is_meant = is_named(words.map) if revealed.fault else _reasons(words, first_kind(words.map)) is not None
        if is_meant:
            self.rejected.append({"outpoint": None, **position, "reason": revealed.fault or unbound})

    def _carry_on(
        self,
        serial: int,
        tx: Tx,
        outs: list[Ranges],
        messages: list[OutputContents],
        silent: OutputContents,
        position: Record,
    ) -> None:
        """A registered satoshi goes on: burned only in the fee or in an output that cannot be spent."""
        vout = _where(serial, outs)
        sharing = self._sharing.pop(serial)
        for number, record in enumerate(sharing):
            self._followed[serial] = record
            if vout is None:
                self._burn(serial, None, "to the fee", position)
            elif _unspendable(tx.outs[vout].script):
                self._burn(serial, f"{tx.txid}_{vout}", "into an output that cannot be spent", position)
            else:
                for message in messages if number == 0 else [silent]:
                    message.owner = say(tx.outs[vout].script, self.network).owner
                    record["outpoint"], record["owner"] = f"{tx.txid}_{vout}", message.owner
                    self._hear(record, f"{tx.txid}_{vout}", message, position)
        if serial in self._followed:
            self._sharing[serial] = sharing

    def _consider(
        self, serial: int, number: int, tx: Tx, outs: list[Ranges], message: OutputContents, position: Record
    ) -> None:
        """An envelope on a satoshi that carries no registration: a first record, a near miss, or nothing of ours."""
        vout = _where(serial, outs)
        kind = first_kind(message.map)
        reasons = _reasons(message, kind)
        if reasons is None:
            return
        if not reasons:
            assert kind is not None
            if vout is None:
                reasons = ["to the fee"]
            elif _unspendable(tx.outs[vout].script):
                reasons = ["into an output that cannot be spent"]
            elif sum(one["id"].partition("#")[0] == f"{tx.txid}_{vout}" for one in self.registrations) == 64:
                reasons = ["this transaction makes as many registrations at the same outpoint as it may: 64"]
            else:
                message.owner = say(tx.outs[vout].script, self.network).owner
                taken = {registration["id"] for registration in self.registrations}
                self._register(serial, vout, kind, message, position)
                record = self.registrations[-1]
                record["id"] += f"#{number}" if record["id"] in taken else ""
                self._sharing.setdefault(serial, []).append(record)
        if reasons:
            landed = None if vout is None else f"{tx.txid}_{vout}"
            self.rejected.append({"outpoint": landed, **position, "reason": reasons[0]})


def is_named(message: dict[str, str]) -> bool:
    """Whether a MAP is meant for the registry: its type registers, or begins with a2b."""
    return first_kind(message) is not None or message.get("type", "").startswith("a2b")


def _why_unbound(revealed: Revealed, number: int, sizes: list[int], outs: list[Ranges]) -> str:
    """Why an envelope inscribes no satoshi; the first one after the last input is one of the fee."""
    if revealed.unknown_tags:
        return f"bound to no satoshi: the envelope has the unknown even tag {revealed.unknown_tags[0][:16].hex()}"
    is_of_fee = number == len(sizes) - 1 and _pointed(revealed, outs) is None
    return "" if sizes[number] or is_of_fee else f"bound to no satoshi: input {number} has no satoshis"


def _pointed(revealed: Revealed, outs: list[Ranges]) -> int | None:
    """The position that a pointer names, if there is such a satoshi in the outputs."""
    total = sum(size for ranges in outs for _, size in ranges)
    return revealed.pointer if revealed.pointer is not None and revealed.pointer < total else None


def _inscribed(revealed: Revealed, before: int, pool: Ranges, outs: list[Ranges]) -> int:
    """The serial number of the satoshi that an envelope inscribes: pointed at, or its input's first; -1 in the fee."""
    pointed = _pointed(revealed, outs)
    position = before if pointed is None else pointed
    for start, size in pool:
        if position < size:
            return start + position
        position -= size
    return -1


def _reasons(message: OutputContents, kind: str | None) -> list[str] | None:
    """Why an envelope registers nothing, empty where it does; None where it is not meant for the registry."""
    assert message.envelope is not None
    if not message.envelope.is_json:
        return ["content type is not JSON"] if is_named(message.map) else None
    if kind is None:
        return _no_kind(message) or None
    return message.envelope.encoded or faults(message.envelope.body, kind)


def _where(serial: int, outs: list[Ranges]) -> int | None:
    results = [vout for vout, ranges in enumerate(outs) if any(a <= serial < a + n for a, n in ranges)]
    return results[0] if results else None


def _no_kind(message: OutputContents) -> list[str]:
    assert message.envelope is not None
    if is_named(message.map):
        return ["MAP type is not an A2B type"]
    if message.map.get("type") not in (None, "agent"):
        return []
    if all(faults(message.envelope.body, kind) for kind in ("agent", "tool")):
        return []
    return ["MAP type agent belongs to app bsv-mcp only" if "type" in message.map else "no MAP record"]


def _tape(tx: Tx) -> dict[str, str]:
    """The MAP fields of the first OP_RETURN output."""
    for out in tx.outs:
        if _unspendable(out.script):
            return map_fields(operations(out.script), None)[0]
    return {}


def _contents(envelope: Envelope | None, tape: dict[str, str]) -> OutputContents:
    inner_map = map_fields([], envelope)[0] if envelope else {}
    return OutputContents(envelope, "", False, False, inner_map or tape, {}, None, None)


def _unspendable(script: bytes) -> bool:
    return script[:1] == b"\x6a" or script[:2] == b"\x00\x6a"
