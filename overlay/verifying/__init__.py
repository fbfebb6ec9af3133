"""Check a listing on the client's side: what a server says is proved by bytes, or said not to be proved.

The server can leave out a newer revision, and no bytes of its own can show that it does not: only a source of the
user's own tells whether the satoshi is still where the server says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple, Protocol

from indexer.chainwork import is_met
from indexer.header_rules import scrypt
from indexer.networks import SCRYPT
from overlay import items
from overlay.verifying import claim, linking, satoshi
from overlay.verifying.claim import HEADER, Claim, NotCheckedError, NotProvedError
from overlay.verifying.own import OwnSource
from parsers import address, beef, bump, cards, sigma
from parsers.cards import Card, Server, ToolConfig
from parsers.errors import CardError, ParseError
from parsers.tx import sha256d

PROVED, NOT_PROVED, NOT_CHECKED = "proved", "not proved", "not checked"

MERGE_MINED = 0x100
"""Bit of a version that says the work is on another chain's header."""


class Told(Protocol):
    """Who tells of listings: a running overlay, or the local store."""

    def listing(self, id_: str) -> Any:
        """The item."""
        ...

    def card(self, id_: str) -> bytes:
        """The card's bytes."""
        ...

    def proof(self, id_: str, first: int | None = None) -> Any:
        """The proof, with headers from height `first` on."""
        ...


class Step(NamedTuple):
    """One thing looked at: what, the outcome (`proved`, `not proved`, `not checked`), and a sentence."""

    step: str
    outcome: str
    detail: str


@dataclass(frozen=True, slots=True)
class Report:
    """All that was looked at. It is verified when everything but `newest` and `domain` is proved."""

    id: str
    chain: str
    steps: tuple[Step, ...]

    @property
    def missing(self) -> list[str]:
        """What is needed and not proved."""
        return [each.step for each in self.steps if each.outcome != PROVED and each.step not in _OPTIONAL]

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        steps = [each._asdict() for each in self.steps]
        return {
            "id": self.id, "chain": self.chain, "verified": not self.missing, "notProved": self.missing, "steps": steps,
        }  # fmt: skip


_OPTIONAL = ("newest", "domain")


def verify(
    told: Told,
    id_: str,
    *,
    own: OwnSource | None = None,
    expected: str | None = None,
    progress: Callable[[int, int], None] = lambda _done, _of: None,
) -> Report:
    """Check everything that is said about a listing. `expected` is the CAIP-2 name of the chain it must be on; without
    it, one that is no main network proves nothing, unless it is the user's own source that vouches for the block.
    Raises what `told` and `own` raise when they cannot be asked."""
    item, proof, card = told.listing(id_), told.proof(id_), told.card(id_)
    try:
        found = claim.read(str(item.get("id")), item, proof, card)
        _check_id(id_, item)
    except NotProvedError as error:
        return Report(id_, str(proof.get("chain")), (Step("answer", NOT_PROVED, str(error)),))

    def fetch(first: int) -> list[bytes]:
        headers = told.proof(id_, first).get("headers")
        if not isinstance(headers, list):
            raise NotProvedError("the answer holds no headers")
        return [claim.unhex(each, "headers", HEADER) for each in headers]

    checks: Mapping[str, Callable[[Claim], str]] = {
        "transaction": _transaction,
        "card": _card,
        "listing": _listing,
        "lineage": lambda each: satoshi.follow(each, own),
        "block": _block,
        "work": _work,
        "chain": lambda each: _chain(each, expected, own, lambda: linking.in_chain(each, fetch, own, progress)),
        "newest": lambda each: _newest(each, own),
        "domain": _domain,
    }
    return Report(id_, found.network.caip2, tuple(_steps(found, checks)))


def _check_id(asked: str, item: Mapping[str, Any]) -> None:
    from overlay.api.listing_api import split

    if split(asked) != split(str(item.get("id"))):
        raise NotProvedError(f"the answer is about {str(item.get('id'))[:100]!a}")


def _steps(found: Claim, checks: Mapping[str, Callable[[Claim], str]]) -> Iterator[Step]:
    for name, check in checks.items():
        try:
            yield Step(name, PROVED, check(found))
        except NotCheckedError as error:
            yield Step(name, NOT_CHECKED, str(error))
        except (NotProvedError, ParseError) as error:
            yield Step(name, NOT_PROVED, str(error))


def _transaction(found: Claim) -> str:
    if found.tx.txid != found.outpoint.txid or found.tx.hex_id != found.item.get("txid"):
        raise NotProvedError(f"the bytes served are transaction {found.tx.hex_id}, and another is named")
    if len(found.bare) == beef.NODE_PAIR:
        raise NotProvedError(f"it has {beef.NODE_PAIR} bytes, as two nodes of a merkle tree have")
    return f"{found.tx.hex_id} is the hash of the {found.tx.size:,} bytes served"


def _card(found: Claim) -> str:
    digest = sha256(found.card)
    if digest.hexdigest() != found.item.get("cardSha256"):
        raise NotProvedError(f"the card served has SHA-256 {digest.hexdigest()}, and another is named")
    record = satoshi.inscribed(found.tx, found.outpoint.vout, found.network.rules.envelope)
    if record.inscription is None or record.inscription.body != found.card:
        raise NotProvedError(f"output {found.outpoint.vout} of the transaction does not inscribe these bytes")
    _read(found)
    return f"its {len(found.card):,} bytes (SHA-256 {digest.hexdigest()}) are inscribed at {found.outpoint}"


def _read(found: Claim) -> Card:
    try:
        return cards.read(found.card, found.kind)
    except CardError as error:
        raise NotProvedError(f"the card is not valid: {error}") from None


def _listing(found: Claim) -> str:
    """What is shown is what the card and the chain say, as far as they say it."""
    expected = _standing(found)
    card = _read(found)
    if isinstance(card, ToolConfig) and "servers" in found.item:
        expected["servers"] = [_server_id(found, card, each.key) for each in card.servers]
    else:
        subject = card if not isinstance(card, ToolConfig) else _server(found, card)
        shown = items.shown(subject)
        expected |= {name: value for name, value in shown.items() if name != "warnings" and name in found.item}
    differing = sorted(name for name, value in expected.items() if found.item.get(name) != value)
    if differing:
        raise NotProvedError(f"the answer says otherwise than card and chain in: {', '.join(differing)}")
    return "name, offers, owner, height and all else shown are what the card and the chain say"


def _server(found: Claim, card: ToolConfig) -> Server:
    for each in card.servers:
        if _server_id(found, card, each.key) == found.id:
            return each
    raise NotProvedError(f"the card holds no server for {found.id[:200]!a}")


def _server_id(found: Claim, card: ToolConfig, key: str) -> str:
    return cards.server_id(str(found.origin), key, len(card.servers))


def _standing(found: Claim) -> dict[str, Any]:
    """What the chain says of a listing, as an item says it."""
    if found.outpoint.vout >= len(found.tx.outputs):
        raise NotProvedError(f"the transaction has no output {found.outpoint.vout}")
    time = int.from_bytes(found.header[68:72], "little")
    expected: dict[str, Any] = {
        "caip2": found.network.caip2, "origin": str(found.origin), "timestamp": items.timestamp(time),
        "updatedHeight": found.height, "blockHeight": found.height,
        "status": "live" if found.seat else "burned",
    }  # fmt: skip
    if found.network.rules.envelope == "output":
        expected["signer"] = sigma.signer(found.tx, found.outpoint.vout)
    newest = found.after[-1] if found.after else found.tx
    if found.seat is not None and found.seat.txid == newest.txid and found.seat.vout < len(newest.outputs):
        script = newest.outputs[found.seat.vout].script
        expected["owner"] = address.owner(script, None, found.network.coin, found.network.kind)
    return expected


def _block(found: Claim) -> str:
    path = bump.read(found.path)
    if path.height != found.height:
        raise NotProvedError(f"the merkle path is for height {path.height:,}, and the answer for {found.height:,}")
    if sha256d(found.header[:HEADER]) != found.block_hash or len(found.header) < HEADER:
        raise NotProvedError("the header served is not that of the block named")
    if path.root(found.tx.txid) != found.header[36:68]:
        raise NotProvedError("the merkle path leads to another root than the header's")
    return f"a merkle path leads from the transaction to the root of block {found.block_hash[::-1].hex()}"


def _work(found: Claim) -> str:
    header = found.header[:HEADER]
    bits = int.from_bytes(header[72:76], "little")
    if found.network.coin == "doge" and int.from_bytes(header[:4], "little") & MERGE_MINED:
        raise NotProvedError("its work is on another chain's header, which the answer does not hold")
    if not is_met(scrypt(header) if found.network.coin in SCRYPT else sha256d(header), bits):
        raise NotProvedError(f"the header does not meet its own target (bits {bits:08x})")
    return f"the header meets its own target: {linking.difficulty(bits)}"


def _chain(found: Claim, expected: str | None, own: OwnSource | None, linked: Callable[[], str]) -> str:
    caip2 = found.network.caip2
    if expected is not None and caip2 != expected:
        raise NotProvedError(f"it is on {caip2}, and {expected} is expected")
    vouched = own is not None and own.holds(found.header[:HEADER], found.height) is not None
    if expected is None and found.network.kind != "mainnet" and not vouched:
        raise NotProvedError(
            f"it is on {caip2}, a network for tests, where anyone makes blocks: say --chain {caip2} if you expect that"
        )
    return linked()


def _newest(found: Claim, own: OwnSource | None) -> str:
    if found.seat is None:
        raise NotProvedError("it is said to be burned; only a node that knows every spend could show otherwise")
    unspent = own.unspent(found.seat) if own is not None else None
    if unspent is None or own is None:
        raise NotProvedError(
            "whether a newer revision exists only a node of your own can say (--headers http://…): the server may "
            "leave one out"
        )
    if not unspent:
        raise NotProvedError(f"your own source {own.name} says that {found.seat} is spent: there is something newer")
    return f"your own source {own.name} says that {found.seat} is unspent"


def _domain(found: Claim) -> str:
    domain = found.item.get("domain")
    host = domain.get("host") if isinstance(domain, dict) else None
    if not host:
        raise NotCheckedError("the card names no host")
    raise NotCheckedError(f"whether {str(host)[:255]} stands behind the card is not looked at")
