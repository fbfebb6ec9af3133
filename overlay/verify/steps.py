"""The steps of verifying a listing, one function for every step: it returns its finding, or raises."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from indexer.headers.networks import Network
from overlay.text.timestamps import timestamp
from overlay.verify import block_checks, domains, item_members, pointer_checks, satoshi_path
from overlay.verify.completeness import Completeness
from overlay.verify.domains import Hosts
from overlay.verify.header_chain import HeaderLinks
from overlay.verify.item_members import Finding
from overlay.verify.rating_checks import RatingCheck
from overlay.verify.server_answer import (
    HEADER,
    MinedBlock,
    MinedTransaction,
    NotCheckedError,
    NotProvedError,
    ServerAnswer,
)
from overlay.verify.trusted_source import TrustedSource
from parsers.bitcoin import address
from parsers.bitcoin.script import is_unspendable, p2pkh
from parsers.bitcoin.tx import Outpoint, TxOutput
from parsers.errors import ParseError
from parsers.inscriptions import ordlock, sigma


@dataclass(slots=True)
class VerificationContext:
    """The input of a step: the answer, the links of blocks by headers, the user's own source, the access to hosts
    (None: domains are not checked), the expected chain, the comparison with other overlays (None without any), the
    rating that is computed again (None without any), and the findings of earlier steps."""

    answer: ServerAnswer
    links: HeaderLinks
    trusted: TrustedSource | None
    hosts: Hosts | None
    expected: str | None
    completeness: Completeness | None = None
    rating: RatingCheck | None = None
    findings: dict[str, Finding] = field(default_factory=dict)

    def expected_members(self) -> dict[str, Any]:
        """The members of the item with the values that earlier steps prove."""
        return {name: value for finding in self.findings.values() for name, value in finding.members.items()}


# -- the winning revision ----------------------------------------------------------------------------------------------


def transaction(context: VerificationContext) -> Finding:
    """The bytes served are the transaction named, which makes the outpoint named."""
    answer = context.answer
    block_checks.check_bytes(MinedTransaction(answer.tx, answer.proof["txid"], answer.bare, answer.block))
    if answer.tx.txid != answer.outpoint.txid or answer.outpoint.vout >= len(answer.tx.outputs):
        raise NotProvedError(f"transaction {answer.tx.hex_id} does not make {answer.outpoint}, and another is named")
    detail = f"{answer.tx.hex_id} is the hash of the {answer.tx.size:,} bytes served"
    return Finding(detail, {"txid": answer.tx.hex_id})


def card(context: VerificationContext) -> Finding:
    """The transaction inscribes the card, or points at it by its hash."""
    answer = context.answer
    block_checks.check_witness(answer.block, is_needed=answer.is_in_witness)
    shown = item_members.of_card(answer) | {"id": answer.id, "cardSha256": sha256(answer.card).hexdigest()}
    if answer.origin is None:
        return Finding(pointer_checks.check_card(answer, pointer_checks.read(answer)), shown | _of_hashed())
    records = (
        inscribed.record for inscribed in satoshi_path.inscribed(answer, answer.outpoint, answer.tx, context.trusted)
    )
    if not any(record.inscription is not None and record.inscription.body == answer.card for record in records):
        raise NotProvedError(f"output {answer.outpoint.vout} of the transaction does not inscribe these bytes")
    in_output = answer.network.rules.envelope == "output"
    signer = sigma.signer(answer.tx, answer.outpoint.vout) if in_output else None
    detail = f"its {len(answer.card):,} bytes (SHA-256 {shown['cardSha256']}) are inscribed at {answer.outpoint}"
    trusted = {"integrity": "inscribed", "anchors": [], "signer": signer or item_members.ABSENT}
    return Finding(detail, shown | trusted)


def _of_hashed() -> dict[str, Any]:
    """Members of a card with a hash on chain; whether it is still served depends on its host."""
    integrity = item_members.Partly(lambda served: served in ("hash-verified", "drifted"))
    return {"integrity": integrity, "signer": item_members.ABSENT}


def registration(context: VerificationContext) -> Finding:
    """The id is that of the winning revision: it names the first transaction of its satoshi, or the pointer names
    it."""
    answer = context.answer
    if answer.origin is None:
        pointer_checks.read(answer)
        return Finding(
            f"the pointer at {answer.outpoint} names the listing", {"type": answer.kind.value, "origin": None}
        )
    satoshi_path.to_winner(answer, context.trusted)
    for hop in answer.before or () if answer.is_in_witness else ():
        _check_hop(context, hop)  # no txid commits to their witnesses
    of = f"{len(answer.before or ()) + 1:,} transactions lead" if answer.before else "the transaction leads"
    detail = f"{of} the satoshi from the registration to the winning revision"
    return Finding(detail, {"type": answer.kind.value, "origin": answer.registration})


# -- its block ---------------------------------------------------------------------------------------------------------


def block(context: VerificationContext) -> Finding:
    """A merkle path leads from the transaction to the root in the block's header, and so does the BEEF."""
    answer = context.answer
    block_checks.check_path(answer.tx, answer.block)
    block_checks.check_beef(answer.tx, answer.block, answer.beef)
    time = int.from_bytes(answer.block.header[68:72], "little")
    name, shown = answer.block.hash[::-1].hex(), {"timestamp": timestamp(time)}
    return Finding(f"a merkle path leads from the transaction to the root of block {name}", shown)


def work(context: VerificationContext) -> Finding:
    """The block's header meets its own target."""
    return Finding(
        f"the header meets its own target: {block_checks.check_work(context.answer.block, context.answer.network)}"
    )


def chain(context: VerificationContext) -> Finding:
    """The block is in the chain expected, by headers or by the user's own source."""
    answer, expected, trusted = context.answer, context.expected, context.trusted
    caip2, header = answer.network.caip2, answer.block.header[:HEADER]
    if expected is not None and caip2 != expected:
        raise NotProvedError(f"it is on {caip2}, and {expected} is expected")
    is_vouched = trusted is not None and trusted.holds(header, answer.block.height) is not None
    if expected is None and answer.network.kind != "mainnet" and not is_vouched:
        raise NotProvedError(
            f"it is on {caip2}, a test network, where anyone makes blocks: give --chain {caip2} to expect it"
        )
    detail, height = context.links.sentence(answer.block), _height(context, answer.block)
    return Finding(detail, {"caip2": caip2, "updatedHeight": height, "blockHeight": height})


def _height(context: VerificationContext, mined: MinedBlock | None) -> Any:
    """The required height of a member; only a part of the proof where the block's link does not prove heights."""
    height = mined.height if mined else None
    is_proved = mined is not None and context.links.proves_height(mined)
    return height if is_proved else item_members.Partly(lambda served: item_members.same(height, served))


# -- where the satoshi is now ------------------------------------------------------------------------------------------


def lineage(context: VerificationContext) -> Finding:
    """The satoshi moves from the winning revision to the location in the answer through transactions in blocks of the
    chain."""
    answer, network = context.answer, context.answer.network
    if answer.origin is None:
        still = {"outpoint": str(answer.outpoint), "owner": None, "status": "live", "app": "",
                 "sale": item_members.ABSENT}  # fmt: skip
        return Finding("a pointer does not move", still)
    state = satoshi_path.to_now(answer, context.trusted)
    for hop in answer.hops:
        _check_hop(context, hop)
    _check_current(answer)
    now = answer.after[-1].tx if answer.after else answer.tx
    owner, sale = None, None
    if state.location is not None:
        owner, sale = _holder(now.outputs[state.location.vout], state.location, network)
    first = answer.before[0].block if answer.before else answer.block
    shown = {
        "outpoint": str(state.location) if state.location else None, "owner": owner,
        "sale": item_members.ABSENT if sale is None else sale,
        "status": "live" if state.location else "burned", "app": state.fields.get("app", ""),
        "createdHeight": _height(context, first),
    }  # fmt: skip
    if not answer.hops:
        return Finding("the transaction is the registration itself, and the satoshi is still there", shown)
    count = len(answer.hops) + 1
    return Finding(
        f"followed from the registration, the satoshi is {satoshi_path.where(state.location)} after {count:,} "
        "transactions, each in a block of the chain", shown,
    )  # fmt: skip


def _holder(output: TxOutput, outpoint: Outpoint, network: Network) -> tuple[str | None, dict[str, Any] | None]:
    """The owner of a satoshi's output, and the sale that it offers (None: none)."""
    sale = ordlock.read(output) if network.coin == "bsv" else None
    if sale is None:
        return address.owner(output.script, network.coin, network.kind), None
    owner, payee = (address.owner(script, network.coin, network.kind) for script in (p2pkh(sale.seller), sale.payout))
    return owner, {"satoshis": sale.satoshis, "outpoint": str(outpoint), "payTo": payee}


def _check_hop(context: VerificationContext, hop: MinedTransaction) -> None:
    """A transaction of the satoshi is in a block of the chain. Raises NotProvedError naming it."""
    try:
        block_checks.check_bytes(hop)
        if hop.block is None:
            raise NotProvedError("the answer does not prove that it is in a block")
        block_checks.check_path(hop.tx, hop.block)
        block_checks.check_witness(hop.block, is_needed=context.answer.is_in_witness)
        block_checks.check_work(hop.block, context.answer.network)
        context.links.sentence(hop.block)
    except (NotProvedError, ParseError) as error:
        raise NotProvedError(f"transaction {hop.tx.hex_id} of the satoshi's path is not proved: {error}") from None


def _check_current(answer: ServerAnswer) -> None:
    """The transaction served as the current one is the last of the satoshi's path."""
    current, last = answer.current, answer.after[-1] if answer.after else None
    if (current.mined if current else None) != last:
        raise NotProvedError("current, where the satoshi is now, is not the last transaction of its path")
    if current is None or current.mined.block is None:
        return
    if current.outpoint != answer.location:
        raise NotProvedError(f"by current the satoshi is {satoshi_path.where(current.outpoint)}")
    block_checks.check_beef(current.mined.tx, current.mined.block, current.beef)


# -- what is shown, and what only others can say -----------------------------------------------------------------------


def listing(context: VerificationContext) -> Finding:
    """The members of the item agree with card and chain, where these are proved."""
    item, expected = context.answer.item, context.expected_members()
    differing = item_members.differing(expected, item)
    lacking = [name for name in differing if name not in item]
    others = [name for name in differing if name in item]
    problems = [f"differs from card and chain in: {', '.join(others)}"] if others else []
    problems += [f"lacks: {', '.join(lacking)}"] if lacking else []
    if problems:
        raise NotProvedError(f"the answer {'; and '.join(problems)}")
    return Finding("all members from card and chain agree with them, where these are proved")


def newest(context: VerificationContext) -> Finding:
    """The satoshi is still at the location in the answer; only the user's own source can prove this."""
    answer, trusted, location = context.answer, context.trusted, context.answer.location
    if answer.origin is None:
        raise NotCheckedError("only a node that follows the chain can report a newer pointer")
    if location is None:
        if "lineage" in context.findings and "chain" in context.findings:
            return Finding("the satoshi is burned, which is final")
        raise NotCheckedError("by the answer it is burned, which is not proved")
    last = answer.after[-1] if answer.after else MinedTransaction(answer.tx, "", answer.bare, answer.block)
    if trusted is None or last.block is None or not trusted.holds(last.block.header[:HEADER], last.block.height):
        raise NotCheckedError(
            "only your own node with the block can exclude a newer revision (--headers http://…): "
            "the server may leave one out"
        )
    is_unspent = trusted.unspent(location)
    is_data = location.vout < len(last.tx.outputs) and is_unspendable(last.tx.outputs[location.vout].script)
    if is_unspent is None or (is_data and not is_unspent):
        raise NotCheckedError(f"your own source {trusted.name} does not know whether {location} is spent")
    if not is_unspent:
        raise NotProvedError(f"your own source {trusted.name} reports {location} as spent: there is a newer revision")
    return Finding(f"your own source {trusted.name} reports {location} as unspent")


def rating(context: VerificationContext) -> Finding | None:
    """The published receipts give the rating; not a step without one."""
    return Finding(context.rating.check(context.links)) if context.rating else None


def complete(context: VerificationContext) -> Finding | None:
    """The overlay leaves out nothing that others have, and nothing that moves the satoshi (BRC-136); not a step where
    no other overlay is named."""
    return Finding(context.completeness.check(context.answer, context.links)) if context.completeness else None


def domain(context: VerificationContext) -> Finding:
    """The host confirms the listing as in the answer (laws 9 to 11)."""
    answer = context.answer
    here = item_members.host(answer)
    if answer.origin is not None and not here:
        raise NotCheckedError("the card names no host")
    if context.hosts is None:
        raise NotCheckedError(f"{here or answer.registration} is not checked")
    check = domains.pointed if answer.origin is None else domains.inscribed
    return check(answer, context.hosts, here)
