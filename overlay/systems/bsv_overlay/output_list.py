"""Answers of lookup services (BRC-24): outputs with their transactions, as JSON and in the aggregated binary form."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from parsers.bitcoin import beef, bump
from parsers.bitcoin.tx import Outpoint, varint

MAX_ANSWER_BYTES = 4 << 20
"""Bytes of an answer, at most: clients refuse more."""

JSON_CHARACTERS = 4
"""Characters that a byte needs in a JSON array, at most."""

_MEMBER_BYTES = 64
_NO_PATHS = b"\0"


@dataclass(frozen=True, slots=True)
class PackedTransaction:
    """A raw transaction and its merkle path (BRC-74), None while it is in no block."""

    raw: bytes
    path: bytes | None


@dataclass(frozen=True, slots=True)
class OverlayOutput:
    """An output of an answer. `transactions` holds its transaction, the last one, after all unproven ancestors and
    their parents, parents first."""

    outpoint: Outpoint
    context: bytes
    transactions: tuple[PackedTransaction, ...]

    @property
    def size(self) -> int:
        """Bytes that it adds to an answer, at most."""
        packed = sum(len(source.raw) + len(source.path or b"") for source in self.transactions)
        return packed + len(self.context) + _MEMBER_BYTES * (1 + len(self.transactions))


def output_list(outputs: Sequence[OverlayOutput]) -> dict[str, Any]:
    """The answer as JSON: each output with a separate BEEF (BRC-62, which all clients read)."""
    return {"type": "output-list", "outputs": [_output(output) for output in outputs]}


def _output(output: OverlayOutput) -> dict[str, Any]:
    packed = to_beef(output.transactions, version=1)
    members: dict[str, Any] = {"beef": list(packed), "outputIndex": output.outpoint.vout}
    return members | ({"context": list(output.context)} if output.context else {})


def aggregated(outputs: Sequence[OverlayOutput]) -> bytes:
    """The binary answer: the number of outputs; of each the txid (display order), output number and context; then one
    BEEF (BRC-96) of all their transactions."""
    parts = [varint(len(outputs))]
    for output in outputs:
        txid, vout = output.outpoint
        parts += [txid[::-1], varint(vout), varint(len(output.context)), output.context]
    transactions = dict.fromkeys(source for output in outputs for source in output.transactions)
    return b"".join([*parts, to_beef(transactions, version=2)])


def to_beef(transactions: Collection[PackedTransaction], *, version: int) -> bytes:
    """The BEEF of these transactions, parents first; also of none, and of one without inputs."""
    if any(source.path is not None for source in transactions):
        paths = [(source.raw, None if source.path is None else bump.read(source.path)) for source in transactions]
        return beef.write(paths, version=version)
    mark, parts = (beef.V1, b"%b\0") if version == 1 else (beef.V2, b"\0%b")
    return b"".join([mark, _NO_PATHS, varint(len(transactions)), *(parts % source.raw for source in transactions)])
