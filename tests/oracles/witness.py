"""Law 3a read the slow and obvious way: envelopes in tapscripts (BTC, LTC), satoshis followed with their offsets."""

from __future__ import annotations

from tests.oracles.hard_rules import faults
from tests.oracles.registry import Ranges, Record, Registry, claims, first_kind
from tests.oracles.scripts import Envelope, Said, map_fields, operations, say, tapscript_envelope
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
        said = {
            first: _said(envelope, tape)
            for first, stack in zip(firsts, tx.witnesses, strict=False)
            if first is not None and (envelope := tapscript_envelope(_tapscript(stack)))
        }
        place: Record = {"txid": tx.txid, "height": self.height, "txIndex": index}
        known = [serial for start, size in pool for serial in self._within(start, size)]
        for serial in known:
            self._carry(serial, tx, outs, said.get(serial) or _said(None, tape), place)
        for serial, words in said.items():
            if serial not in known:
                self._consider(serial, tx, outs, words, place)
        for vout, out in enumerate(tx.outs):
            pointer = say(out.script, self.network).pointer
            if pointer:
                self.pointers.append({"outpoint": f"{tx.txid}_{vout}", **place, **pointer})

    def _first_satoshi(self, spent: str) -> int | None:
        held = self._held[spent]
        return held[0][0] if held else None

    def _carry(self, serial: int, tx: Tx, outs: list[Ranges], said: Said, place: Record) -> None:
        """A registered satoshi goes on: burned only in the fee or in an output that cannot be spent."""
        vout = _where(serial, outs)
        if vout is None:
            self._burn(serial, None, "to the fee", place)
        elif _unspendable(tx.outs[vout].script):
            self._burn(serial, f"{tx.txid}_{vout}", "into an output that cannot be spent", place)
        else:
            made = self._followed[serial]
            said.owner = say(tx.outs[vout].script, self.network).owner
            made["outpoint"], made["owner"] = f"{tx.txid}_{vout}", said.owner
            self._hear(made, f"{tx.txid}_{vout}", said, place)

    def _consider(self, serial: int, tx: Tx, outs: list[Ranges], said: Said, place: Record) -> None:
        """An envelope on a satoshi that carries no registration: a first record, a near miss, or nothing of ours."""
        assert said.envelope is not None
        vout = _where(serial, outs)
        kind, reasons = first_kind(said.map), []
        if not said.envelope.is_json:
            reasons = ["content type is not JSON"] if claims(said.map) else []
        elif kind is None:
            reasons = _no_kind(said)
        else:
            reasons = faults(said.envelope.body, kind)
        if kind and not reasons:
            if vout is None:
                reasons = ["to the fee"]
            elif _unspendable(tx.outs[vout].script):
                reasons = ["into an output that cannot be spent"]
            elif any(each["id"] == f"{tx.txid}_{vout}" for each in self.registrations):
                reasons = ["another registration of this transaction has the same outpoint"]
            else:
                said.owner = say(tx.outs[vout].script, self.network).owner
                self._register(serial, vout, kind, said, place)
        if reasons:
            landed = None if vout is None else f"{tx.txid}_{vout}"
            self.rejected.append({"outpoint": landed, **place, "reason": reasons[0]})


def _where(serial: int, outs: list[Ranges]) -> int | None:
    found = [vout for vout, ranges in enumerate(outs) if any(a <= serial < a + n for a, n in ranges)]
    return found[0] if found else None


def _no_kind(said: Said) -> list[str]:
    assert said.envelope is not None
    if not said.map:
        fit = any(not faults(said.envelope.body, kind) for kind in ("agent", "tool"))
        return ["no MAP record"] if fit else []
    if said.map.get("type") == "agent":
        return ["MAP type agent belongs to app bsv-mcp only"]
    return ["MAP type is not an A2B type"] if claims(said.map) else []


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


def _said(envelope: Envelope | None, tape: dict[str, str]) -> Said:
    own = map_fields([], envelope)[0] if envelope else {}
    return Said(envelope, "", False, False, own or tape, {}, None, None)


def _unspendable(script: bytes) -> bool:
    return script[:1] == b"\x6a" or script[:2] == b"\x00\x6a"
