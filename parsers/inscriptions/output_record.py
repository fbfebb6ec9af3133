"""One output as a record: its envelope, its MAP, its pointer, and the kind of listing that its MAP registers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from parsers.bitcoin.script import is_unspendable
from parsers.bitcoin.tx import Transaction
from parsers.cards import Kind
from parsers.cards.card import KINDS
from parsers.inscriptions import envelope, map_protocol
from parsers.inscriptions.envelope import Inscription
from parsers.inscriptions.map_protocol import Map
from parsers.inscriptions.tapscript import TapscriptEnvelope
from parsers.pointers import pointer
from parsers.pointers.pointer import Pointer

_LEGACY_TYPE, _LEGACY_APP = "agent", "bsv-mcp"


@dataclass(frozen=True, slots=True)
class OutputRecord:
    """Everything parsed from one output.

    `near` holds the reason codes of near misses where there is no valid envelope, `near_json` whether one of them
    declares JSON as its content type.
    """

    vout: int
    satoshis: int
    script: bytes
    inscription: Inscription | None = None
    map: Map | None = None
    pointer: Pointer | None = None
    near: tuple[str, ...] = ()
    near_json: bool = False

    @property
    def fields(self) -> Mapping[str, str]:
        """The SET fields of this output's MAP, empty without one."""
        return self.map.fields if self.map else {}

    @property
    def kind(self) -> Kind | None:
        """The kind that this output's MAP registers, see `kind_of`."""
        return kind_of(self.fields)


def read(tx: Transaction, vout: int) -> OutputRecord:
    """Parse output number `vout`: its envelope, MAP and pointer. Never raises."""
    satoshis, script = tx.outputs[vout]
    inscription = envelope.read(script)
    fields = map_protocol.read(script, inscription)
    near = () if inscription else envelope.near_misses(script)
    target = pointer.read(script)
    if target is None and inscription is None and fields is not None:
        target = pointer.read_map(fields.fields)
    near_json = any(envelope.is_json(miss.content_type) for miss in near)
    codes = tuple(dict.fromkeys(miss.code for miss in near))
    return OutputRecord(vout, satoshis, script, inscription, fields, target, codes, near_json)


def read_tape(tx: Transaction) -> OutputRecord:
    """The MAP of the first OP_RETURN output: it applies to each registration that the transaction moves (law 3a)."""
    data = next((output.script for output in tx.outputs if is_unspendable(output.script)), b"")
    return OutputRecord(0, 0, data, map=map_protocol.read(data))


def read_revealed(revealed: TapscriptEnvelope, tape: OutputRecord) -> OutputRecord:
    """The record of an envelope in a tapscript: its MAP is its field, or without it that of the `tape` (law 3a)."""
    shown = revealed.inscription
    fields = map_protocol.read_field(shown) or tape.map
    if revealed.fault:
        return OutputRecord(0, 0, b"", None, fields, near=(revealed.fault,))
    return OutputRecord(0, 0, b"", shown, fields)


def kind_of(fields: Mapping[str, str]) -> Kind | None:
    """The kind that a first record with this MAP registers (law 1); None for a type outside the registry."""
    map_type = fields.get("type", "")
    if map_type == _LEGACY_TYPE:
        return Kind.AGENT if fields.get("app") == _LEGACY_APP else None
    return KINDS.get(map_type)


def family(map_type: str) -> Kind | None:
    """The kind of a later record's MAP type, for any app (law 4: `a2b`, `a2b-agent` and `agent` are equal), or None."""
    return Kind.AGENT if map_type == _LEGACY_TYPE else KINDS.get(map_type)


def is_for_registry(fields: Mapping[str, str]) -> bool:
    """Whether this MAP is intended for the registry, valid or not (law 7): its type is known or begins with `a2b`."""
    return kind_of(fields) is not None or fields.get("type", "").startswith("a2b")
