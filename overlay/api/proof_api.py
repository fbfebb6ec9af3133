"""The proof of one listing, for clients that check it themselves."""

from __future__ import annotations

from asyncio import to_thread
from typing import Any

from aiohttp import web

from indexer.store.proofs import Proved
from overlay.api.answers import EDGE, SERVICES, json_bytes
from overlay.api.executor import RECORDS, RECORDS_SECONDS
from overlay.api.listing_api import find, split
from overlay.api.params import PROOF, taken
from overlay.api.problems import NotFoundError, ProblemError
from overlay.compact import encode
from overlay.items import timestamp
from overlay.ports import Services, Store
from overlay.proofs import Evidence, Located, NoProofError
from parsers.witness_commitment import Coinbase

MAX_HEADERS = 20_160
"""Headers in one answer, 3.2 MB of hex; whoever needs more asks again from where these end."""


async def proof(request: web.Request) -> web.Response:
    """What proves a listing: the transactions of its satoshi with their merkle paths, and headers from a height on if
    asked for."""
    given = taken(request.rel_url.raw_query_string, PROOF)
    store, asked = request.app[SERVICES].store, request.match_info["id"]
    await _check_owner(request.app[SERVICES], asked)
    client = request.app[EDGE].clients.of(request)
    return json_bytes(
        await request.app[RECORDS].run(client, RECORDS_SECONDS, _encoded, store, asked, given.get("from")),
        headers={"Cache-Control": "no-store"},
    )


async def _check_owner(services: Services, text: str) -> None:
    """Where moves are found by asking: ask now. Raises ProblemError (503) when the satoshi turns out to have moved."""
    if services.check_owner is None:
        return
    listing = await to_thread(services.store.listing, split(text)[0])
    seat = listing.state.outpoint if listing else None
    if listing and seat and await services.check_owner(listing.chain, seat) is False:
        raise ProblemError(503, f"{seat} has just been found spent, and what spent it is being read: ask again",
                           headers={"Retry-After": "2"})  # fmt: skip


def _encoded(store: Store, text: str, first: int | None) -> bytes:
    return encode(answer(store, text, first))


def answer(store: Store, text: str, first: int | None = None) -> dict[str, Any]:
    """The proof of a listing by its id, with headers from height `first` on. Raises NotFoundError."""
    plain, _ = split(text)
    listing = find(store, plain, text)
    if listing.created_time is None:
        raise NotFoundError(f"{plain} is unconfirmed: there is a proof once a block holds it")
    try:
        found = store.evidence(plain)
    except NoProofError as error:
        raise NotFoundError(f"there is no proof of {plain}: {error}") from error
    members = _members(plain, found)
    if listing.owner_checked is not None:
        members["ownerCheckedAt"] = timestamp(listing.owner_checked)
    if first is not None:
        headers = store.headers(found.chain, first, MAX_HEADERS)
        members |= {"from": first, "headers": [header.hex() for header in headers]}
    return members


def _members(id_: str, evidence: Evidence) -> dict[str, Any]:
    members: dict[str, Any] = {"id": id_, "chain": evidence.caip2, **_located(evidence.winner)}
    if evidence.current is not None:
        members["current"] = _located(evidence.current)
    if evidence.before is not None and evidence.after is not None:
        members["before"] = [_hop(hop) for hop in evidence.before]
        members["after"] = [_hop(hop) for hop in evidence.after]
        members["parents"] = [raw.hex() for raw in evidence.parents]
    return members


def _located(located: Located) -> dict[str, Any]:
    outpoint = str(located.outpoint) if located.outpoint else None
    return {"outpoint": outpoint, **_hop(located.proved), "beef": located.beef.hex()}


def _hop(proved: Proved) -> dict[str, Any]:
    """A transaction, its merkle path, the block that it was mined in, and what proves its witness where that is
    stored."""
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


def _witness(coinbase: Coinbase, branch: bytes | None) -> dict[str, str]:
    """What proves that a witness was mined (BIP 141); without `bump` in a block that commits to none."""
    served = {
        "coinbase": coinbase.raw.hex(),
        "coinbaseBump": coinbase.bump.hex(),
        "reserved": coinbase.reserved.hex(),
    }
    return served if branch is None else served | {"bump": branch.hex()}
