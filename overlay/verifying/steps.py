"""The steps of checking a listing, one function each: it returns what it proves, or raises what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from overlay import items
from overlay.verifying import blocks, domains, members, pointing, satoshi
from overlay.verifying.claim import HEADER, Block, Claim, Mined, NotCheckedError, NotProvedError
from overlay.verifying.domains import Hosts
from overlay.verifying.linking import HeaderLinks
from overlay.verifying.own import OwnSource
from parsers import address, sigma
from parsers.errors import ParseError
from parsers.script import is_unspendable

MEMBERS = frozenset(
    (
        "id", "type", "origin", "caip2", "txid", "cardSha256", "integrity", "anchors", "signer", "domain", "outpoint",
        "owner", "status", "app", "createdHeight", "updatedHeight", "blockHeight", "timestamp",
    )
)  # fmt: skip
"""Members of every item, or of some, that steps prove: named as not proved when they do not."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a step proves: a sentence, and the members of the item with the values that they must have."""

    detail: str
    members: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Context:
    """What a step may use: the claim, how headers link blocks, the user's own source, who asks domains (None: nobody
    does), the chain expected, and the findings of the steps so far that proved something."""

    claim: Claim
    links: HeaderLinks
    own: OwnSource | None
    hosts: Hosts | None
    expected: str | None
    findings: dict[str, Finding] = field(default_factory=dict)

    def expected_members(self) -> dict[str, Any]:
        """The members of the item as the steps so far prove them to be."""
        return {name: value for finding in self.findings.values() for name, value in finding.members.items()}


# -- the winning revision ----------------------------------------------------------------------------------------------


def transaction(context: Context) -> Finding:
    """The bytes served are the transaction named, which makes the outpoint named."""
    claim = context.claim
    blocks.check_bytes(Mined(claim.tx, claim.proof["txid"], claim.bare, claim.block))
    if claim.tx.txid != claim.outpoint.txid or claim.outpoint.vout >= len(claim.tx.outputs):
        raise NotProvedError(f"transaction {claim.tx.hex_id} does not make {claim.outpoint}, and another is named")
    detail = f"{claim.tx.hex_id} is the hash of the {claim.tx.size:,} bytes served"
    return Finding(detail, {"txid": claim.tx.hex_id})


def card(context: Context) -> Finding:
    """The transaction inscribes the card, or points at it by its hash."""
    claim = context.claim
    blocks.check_witness(claim.block, is_needed=claim.is_in_witness)
    shown = members.of_card(claim) | {"id": claim.id, "cardSha256": sha256(claim.card).hexdigest()}
    if claim.origin is None:
        return Finding(pointing.check_card(claim, pointing.read(claim)), shown | _of_hashed())
    record, _ = satoshi.inscribed(claim, claim.outpoint, claim.tx, context.own)
    if record.inscription is None or record.inscription.body != claim.card:
        raise NotProvedError(f"output {claim.outpoint.vout} of the transaction does not inscribe these bytes")
    in_output = claim.network.rules.envelope == "output"
    signer = sigma.signer(claim.tx, claim.outpoint.vout) if in_output else None
    detail = f"its {len(claim.card):,} bytes (SHA-256 {shown['cardSha256']}) are inscribed at {claim.outpoint}"
    own = {"integrity": "inscribed", "anchors": [], "signer": signer or members.ABSENT}
    return Finding(detail, shown | own)


def _of_hashed() -> dict[str, Any]:
    """Of a card with a hash on chain: whether it is still served, only its host can tell."""
    integrity = members.Partly(lambda served: served in ("hash-verified", "drifted"))
    return {"integrity": integrity, "signer": members.ABSENT}


def registration(context: Context) -> Finding:
    """The id is that of the winning revision: it names the first transaction of its satoshi, or is pointed at."""
    claim = context.claim
    if claim.origin is None:
        pointing.read(claim)
        return Finding(f"the pointer at {claim.outpoint} names the listing", {"type": claim.kind.value, "origin": None})
    satoshi.to_winner(claim, context.own)
    for hop in claim.before or () if claim.is_in_witness else ():
        _check_hop(context, hop)  # no txid commits to their witnesses
    of = f"{len(claim.before or ()) + 1:,} transactions lead" if claim.before else "the transaction leads"
    detail = f"{of} the satoshi from the registration to the winning revision"
    return Finding(detail, {"type": claim.kind.value, "origin": str(claim.origin)})


# -- its block ---------------------------------------------------------------------------------------------------------


def block(context: Context) -> Finding:
    """A merkle path leads from the transaction to the root in the block's header, and so does the BEEF."""
    claim = context.claim
    blocks.check_path(claim.tx, claim.block)
    blocks.check_beef(claim.tx, claim.block, claim.beef)
    time = int.from_bytes(claim.block.header[68:72], "little")
    name, shown = claim.block.hash[::-1].hex(), {"timestamp": items.timestamp(time)}
    return Finding(f"a merkle path leads from the transaction to the root of block {name}", shown)


def work(context: Context) -> Finding:
    """The block's header meets its own target."""
    return Finding(f"the header meets its own target: {blocks.check_work(context.claim.block, context.claim.network)}")


def chain(context: Context) -> Finding:
    """The block is in the chain expected, by headers or by the user's own source."""
    claim, expected, own = context.claim, context.expected, context.own
    caip2, header = claim.network.caip2, claim.block.header[:HEADER]
    if expected is not None and caip2 != expected:
        raise NotProvedError(f"it is on {caip2}, and {expected} is expected")
    is_vouched = own is not None and own.holds(header, claim.block.height) is not None
    if expected is None and claim.network.kind != "mainnet" and not is_vouched:
        raise NotProvedError(
            f"it is on {caip2}, a network for tests, where anyone makes blocks: say --chain {caip2} if you expect that"
        )
    detail, height = context.links.sentence(claim.block), _height(context, claim.block)
    return Finding(detail, {"caip2": caip2, "updatedHeight": height, "blockHeight": height})


def _height(context: Context, mined: Block | None) -> Any:
    """The height that a member of the item must be: proved only where what links the block says heights."""
    height = mined.height if mined else None
    is_proved = mined is not None and context.links.proves_height(mined)
    return height if is_proved else members.Partly(lambda served: members.same(height, served))


# -- where the satoshi is now ------------------------------------------------------------------------------------------


def lineage(context: Context) -> Finding:
    """The satoshi leads from the winning revision to where it is said to be, through transactions that are each in a
    block of the chain."""
    claim, network = context.claim, context.claim.network
    if claim.origin is None:
        still = {"outpoint": str(claim.outpoint), "owner": None, "status": "live", "app": ""}
        return Finding("a pointer moves nowhere", still)
    place = satoshi.to_now(claim, context.own)
    for hop in claim.hops:
        _check_hop(context, hop)
    _check_current(claim)
    now = claim.after[-1].tx if claim.after else claim.tx
    owner = None
    if place.seat is not None:
        owner = address.owner(now.outputs[place.seat.vout].script, None, network.coin, network.kind)
    first = claim.before[0].block if claim.before else claim.block
    shown = {
        "outpoint": str(place.seat) if place.seat else None, "owner": owner,
        "status": "live" if place.seat else "burned", "app": place.fields.get("app", ""),
        "createdHeight": _height(context, first),
    }  # fmt: skip
    if not claim.hops:
        return Finding("the transaction is the registration itself, and the satoshi is still there", shown)
    count = len(claim.hops) + 1
    return Finding(
        f"followed from the registration, the satoshi is {satoshi.where(place.seat)} after {count:,} transactions, "
        "each in a block of the chain", shown,
    )  # fmt: skip


def _check_hop(context: Context, hop: Mined) -> None:
    """A transaction of the satoshi is in a block of the chain. Raises NotProvedError naming it."""
    try:
        blocks.check_bytes(hop)
        if hop.block is None:
            raise NotProvedError("the answer does not prove that it is in a block")
        blocks.check_path(hop.tx, hop.block)
        blocks.check_witness(hop.block, is_needed=context.claim.is_in_witness)
        blocks.check_work(hop.block, context.claim.network)
        context.links.sentence(hop.block)
    except (NotProvedError, ParseError) as error:
        raise NotProvedError(f"transaction {hop.tx.hex_id} of the satoshi's way is not proved: {error}") from None


def _check_current(claim: Claim) -> None:
    """The transaction served as the satoshi's place is the last on its way."""
    current, last = claim.current, claim.after[-1] if claim.after else None
    if (current.mined if current else None) != last:
        raise NotProvedError("current, where the satoshi is now, is not the last transaction of its way")
    if current is None or current.mined.block is None:
        return
    if current.outpoint != claim.seat:
        raise NotProvedError(f"current says that the satoshi is {satoshi.where(current.outpoint)}")
    blocks.check_beef(current.mined.tx, current.mined.block, current.beef)


# -- what is shown, and what only others can say -----------------------------------------------------------------------


def listing(context: Context) -> Finding:
    """The item says what card and chain say, as far as that is proved."""
    item, expected = context.claim.item, context.expected_members()
    differing = members.differing(expected, item)
    lacking = [name for name in differing if name not in item]
    others = [name for name in differing if name in item]
    problems = [f"says otherwise than card and chain in: {', '.join(others)}"] if others else []
    problems += [f"lacks: {', '.join(lacking)}"] if lacking else []
    if problems:
        raise NotProvedError(f"the answer {'; and '.join(problems)}")
    return Finding("all members that card and chain decide are as they say, as far as that is proved")


def newest(context: Context) -> Finding:
    """The satoshi is still where it is said to be, as only a source of the user's own knows."""
    claim, own, seat = context.claim, context.own, context.claim.seat
    if claim.origin is None:
        raise NotCheckedError("whether a newer pointer exists only following the chain tells")
    if seat is None:
        if "lineage" in context.findings and "chain" in context.findings:
            return Finding("the satoshi is burned, which is final")
        raise NotCheckedError("it is said to be burned, which is not proved")
    last = claim.after[-1] if claim.after else Mined(claim.tx, "", claim.bare, claim.block)
    if own is None or last.block is None or not own.holds(last.block.header[:HEADER], last.block.height):
        raise NotCheckedError(
            "whether a newer revision exists only a node of your own that has the block can say (--headers http://…): "
            "the server may leave one out"
        )
    is_unspent = own.unspent(seat)
    is_data = seat.vout < len(last.tx.outputs) and is_unspendable(last.tx.outputs[seat.vout].script)
    if is_unspent is None or (is_data and not is_unspent):
        raise NotCheckedError(f"your own source {own.name} cannot say whether {seat} is spent")
    if not is_unspent:
        raise NotProvedError(f"your own source {own.name} says that {seat} is spent: there is something newer")
    return Finding(f"your own source {own.name} says that {seat} is unspent")


def domain(context: Context) -> Finding:
    """The host says of the listing what the answer says that it does (laws 9 to 11)."""
    claim = context.claim
    here = members.host(claim)
    if claim.origin is not None and not here:
        raise NotCheckedError("the card names no host")
    if context.hosts is None:
        raise NotCheckedError(f"{here or claim.registration} is not asked")
    if claim.origin is None:
        detail, shown = domains.pointed(claim, context.hosts, here)
    else:
        detail, shown = domains.inscribed(claim, context.hosts, here)
    return Finding(detail, shown)
