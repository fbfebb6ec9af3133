"""Law 3a read the slow and obvious way: envelopes in tapscripts (BTC, LTC), satoshis followed with their offsets."""

from __future__ import annotations

from tests.oracles.hard_rules import faults
from tests.oracles.registry import Ranges, Record, Registry, claims, first_kind
from tests.oracles.scripts import Envelope, OutputContents, map_fields, operations, say, tapscript_envelope
from tests.oracles.wire import Tx


class WitnessRegistry(Registry):
    """What the blocks of a chain with witnesses say. Rejections name the outpoint where the satoshi landed.

    Where the law leaves a choice: an in-envelope MAP field silences the transaction's tape for that envelope; the tape
    is heard by every registered satoshi of the transaction that has no envelope; input order decides between two first
    records that land in one output.
    """

    segwit = True

    def _read(self, tx: Tx, index: int) -> None:
        firsts = [self._first_satoshi(spent) for spent in tx.spends] if not tx.is_coinbase else []
        pool, outs = self._share_out(tx)
        for vout, ranges in enumerate(outs):
            self._held[f"{tx.txid}_{vout}"] = ranges
        tape = _tape(tx)
        messages = {
            first: _contents(envelope, tape)
            for first, stack in zip(firsts, tx.witnesses, strict=False)
            if first is not None and (envelope := tapscript_envelope(_tapscript(stack)))
        }
        place: Record = {"txid": tx.txid, "height": self.height, "txIndex": index}
        existing = [serial for start, size in pool for serial in self._within(start, size)]
        for serial in existing:
            self._carry(serial, tx, outs, messages.get(serial) or _contents(None, tape), place)
        for serial, words in messages.items():
            if serial not in existing:
                self._consider(serial, tx, outs, words, place)
        for vout, out in enumerate(tx.outs):
            pointer = say(out.script, self.network).pointer
            if pointer:
                self.pointers.append({"outpoint": f"{tx.txid}_{vout}", **place, **pointer})

    def _first_satoshi(self, spent: str) -> int | None:
        held = self._held[spent]
        return held[0][0] if held else None

    def _carry(self, serial: int, tx: Tx, outs: list[Ranges], message: OutputContents, place: Record) -> None:
        """A registered satoshi goes on: burned only in the fee or in an output that cannot be spent."""
        vout = _where(serial, outs)
        if vout is None:
            self._burn(serial, None, "to the fee", place)
        elif _unspendable(tx.outs[vout].script):
            self._burn(serial, f"{tx.txid}_{vout}", "into an output that cannot be spent", place)
        else:
            created = self._followed[serial]
            message.owner = say(tx.outs[vout].script, self.network).owner
            created["outpoint"], created["owner"] = f"{tx.txid}_{vout}", message.owner
            self._hear(created, f"{tx.txid}_{vout}", message, place)

    def _consider(self, serial: int, tx: Tx, outs: list[Ranges], message: OutputContents, place: Record) -> None:
        """An envelope on a satoshi that carries no registration: a first record, a near miss, or nothing of ours."""
        assert message.envelope is not None
        vout = _where(serial, outs)
        kind, reasons = first_kind(message.map), []
        if not message.envelope.is_json:
            reasons = ["content type is not JSON"] if claims(message.map) else []
        elif kind is None:
            reasons = _no_kind(message)
        else:
            reasons = message.envelope.encoded or faults(message.envelope.body, kind)
        if kind and not reasons:
            if vout is None:
                reasons = ["to the fee"]
            elif _unspendable(tx.outs[vout].script):
                reasons = ["into an output that cannot be spent"]
            elif any(registration["id"] == f"{tx.txid}_{vout}" for registration in self.registrations):
                reasons = ["another registration of this transaction has the same outpoint"]
            else:
                message.owner = say(tx.outs[vout].script, self.network).owner
                self._register(serial, vout, kind, message, place)
        if reasons:
            landed = None if vout is None else f"{tx.txid}_{vout}"
            self.rejected.append({"outpoint": landed, **place, "reason": reasons[0]})


def _where(serial: int, outs: list[Ranges]) -> int | None:
    results = [vout for vout, ranges in enumerate(outs) if any(a <= serial < a + n for a, n in ranges)]
    return results[0] if results else None


def _no_kind(message: OutputContents) -> list[str]:
    assert message.envelope is not None
    if not message.map:
        fit = any(not faults(message.envelope.body, kind) for kind in ("agent", "tool"))
        return ["no MAP record"] if fit else []
    if message.map.get("type") == "agent":
        return ["MAP type agent belongs to app bsv-mcp only"]
    return ["MAP type is not an A2B type"] if claims(message.map) else []


def _tapscript(stack: tuple[bytes, ...]) -> bytes:
    """The script of a taproot script spend: the last but one item, an annex (0x50…) left aside (BIP 341)."""
    if len(stack) >= 2 and stack[-1][:1] == b"\x50":
        stack = stack[:-1]
    return stack[-2] if len(stack) >= 2 else b""


def _tape(tx: Tx) -> dict[str, str]:
    """The MAP fields of the first OP_RETURN output."""
    for out in tx.outs:
        if _unspendable(out.script):
            return map_fields(operations(out.script), None)[0]
    return {}


def _contents(envelope: Envelope | None, tape: dict[str, str]) -> OutputContents:
    own = map_fields([], envelope)[0] if envelope else {}
    return OutputContents(envelope, "", False, False, own or tape, {}, None, None)


def _unspendable(script: bytes) -> bool:
    return script[:1] == b"\x6a" or script[:2] == b"\x00\x6a"
