"""The proof of a listing as JSON (schema `Proof`), with headers on request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from overlay.listings.ids import parse_id
from overlay.listings.lookup import ListingNotFoundError, registration
from overlay.listings.stored_proofs import Located, NoProofError, StoredProof
from overlay.text.timestamps import timestamp
from parsers.bitcoin.tx import read

if TYPE_CHECKING:
    from indexer.store.proofs import Proved
    from overlay.listings.repository import ListingRepository
    from parsers.bitcoin.witness_commitment import CoinbaseProof

MAX_HEADERS = 20_160
"""Headers in one answer, 3.2 MB of hex; the next request continues from the last one."""


def proof(repository: ListingRepository, text: str, first: int | None = None) -> dict[str, Any]:
    """The proof of a listing by its id, with headers from height `first` on. Raises ListingNotFoundError."""
    plain, _ = parse_id(text)
    listing = registration(repository, plain, text)
    if listing.created_time is None:
        raise ListingNotFoundError(f"{plain} is unconfirmed: there is a proof once it is in a block")
    try:
        proof = repository.proof(plain)
    except NoProofError as error:
        raise ListingNotFoundError(f"there is no proof of {plain}: {error}") from error
    if repository.hidden_transactions(_txids(proof)):
        raise ListingNotFoundError(f"there is no proof of {plain} here: a transaction in it is of a hidden listing")
    members = _members(plain, proof)
    if listing.owner_checked is not None:
        members["ownerCheckedAt"] = timestamp(listing.owner_checked)
    if first is not None:
        headers = repository.headers(proof.chain, first, MAX_HEADERS)
        members |= {"from": first, "headers": [header.hex() for header in headers]}
    return members


def _txids(proof: StoredProof) -> Iterator[bytes]:
    """The transactions of a proof."""
    yield from (located.proved.txid for located in (proof.winner, proof.current) if located is not None)
    yield from (hop.txid for hop in (*(proof.before or ()), *(proof.after or ())))
    yield from (read(raw).txid for raw in proof.parents)


def _members(id_: str, proof: StoredProof) -> dict[str, Any]:
    members: dict[str, Any] = {"id": id_, "chain": proof.caip2, **_located_json(proof.winner)}
    if proof.current is not None:
        members["current"] = _located_json(proof.current)
    if proof.before is not None and proof.after is not None:
        members["before"] = [_hop(hop) for hop in proof.before]
        members["after"] = [_hop(hop) for hop in proof.after]
        members["parents"] = [raw.hex() for raw in proof.parents]
    return members


def _located_json(located: Located) -> dict[str, Any]:
    outpoint = str(located.outpoint) if located.outpoint else None
    return {"outpoint": outpoint, **_hop(located.proved), "beef": located.beef.hex()}


def _hop(proved: Proved) -> dict[str, Any]:
    """A transaction, its merkle path, its block, and the proof of its witness where that is stored."""
    members: dict[str, Any] = {
        "txid": proved.txid[::-1].hex(),
        "rawTx": proved.proof.raw.hex(),
        "bump": proved.proof.bump.hex(),
        "blockHash": proved.ref.hash[::-1].hex(),
        "height": proved.ref.height,
        "header": proved.ref.header.hex(),
    }
    if proved.coinbase is not None:
        members["witness"] = _witness(proved.coinbase, proved.proof.witness)
    return members


def _witness(coinbase: CoinbaseProof, branch: bytes | None) -> dict[str, str]:
    """The proof that a witness was mined (BIP 141); without `bump` in a block that commits to no witness."""
    served = {
        "coinbase": coinbase.raw.hex(),
        "coinbaseBump": coinbase.bump.hex(),
        "reserved": coinbase.reserved.hex(),
    }
    return served if branch is None else served | {"bump": branch.hex()}
