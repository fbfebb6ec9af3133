"""One output as a record: its envelope, its MAP, the pointer it may be, and what its MAP says it registers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from parsers import envelope, map_protocol, pointer
from parsers.cards import Kind
from parsers.envelope import Inscription
from parsers.map_protocol import Map
from parsers.pointer import Pointer
from parsers.script import is_unspendable
from parsers.tx import Transaction

_KINDS = {"a2b-agent": Kind.AGENT, "a2b": Kind.AGENT, "a2b-mcp": Kind.TOOL}
_LEGACY_TYPE, _LEGACY_APP = "agent", "bsv-mcp"


@dataclass(frozen=True, slots=True)
class OutputRecord:
    """All that one output says.

    `near` holds reason codes of what resembles an envelope where there is no valid one, `near_json` whether one of them
    declares JSON, and so may be meant for us.
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
        """The SET fields of this output's MAP, empty where there is none."""
        return self.map.fields if self.map else {}

    @property
    def kind(self) -> Kind | None:
        """What this output's MAP registers, see `kind_of`."""
        return kind_of(self.fields)


def read(tx: Transaction, vout: int, *, witness: tuple[bytes, ...] | None = None) -> OutputRecord:
    """Read output `vout`, its envelope, MAP and pointer.

    With `witness`, the stack of the input whose first satoshi lands there, the envelope is looked for in its tapscript,
    and MAP is the envelope's field, or else stands in the transaction's first OP_RETURN output (law 3a).
    """
    satoshis, script = tx.outputs[vout]
    if witness is not None:
        return _read_witness(tx, vout, witness)
    inscription = envelope.read(script)
    fields = map_protocol.read(script, inscription)
    near = () if inscription else envelope.near_misses(script)
    target = pointer.read(script)
    if target is None and inscription is None and fields is not None:
        target = pointer.read_map(fields.fields)
    near_json = any(envelope.is_json(miss.content_type) for miss in near)
    codes = tuple(dict.fromkeys(miss.code for miss in near))
    return OutputRecord(vout, satoshis, script, inscription, fields, target, codes, near_json)


def _read_witness(tx: Transaction, vout: int, witness: tuple[bytes, ...]) -> OutputRecord:
    satoshis, script = tx.outputs[vout]
    inscription = next(iter(envelope.read_witness(witness)), None)
    if inscription is None:
        return OutputRecord(vout, satoshis, script)
    fields = map_protocol.read_field(inscription)
    if fields is None:
        data = next((made.script for made in tx.outputs if is_unspendable(made.script)), b"")
        fields = map_protocol.read(data)
    return OutputRecord(vout, satoshis, script, inscription, fields)


def kind_of(fields: Mapping[str, str]) -> Kind | None:
    """What a first record with this MAP registers (law 1), None when nothing of ours."""
    named = fields.get("type", "")
    if named == _LEGACY_TYPE:
        return Kind.AGENT if fields.get("app") == _LEGACY_APP else None
    return _KINDS.get(named)


def family(named: str) -> Kind | None:
    """The kind of a later record's MAP type, whatever its app (law 4: `a2b`, `a2b-agent` and `agent` are one)."""
    return Kind.AGENT if named == _LEGACY_TYPE else _KINDS.get(named)


def is_claim(fields: Mapping[str, str]) -> bool:
    """Whether this MAP is meant for us, accepted or not (law 7): an A2B type, or one that begins `a2b`."""
    return kind_of(fields) is not None or fields.get("type", "").startswith("a2b")
