"""The output that holds a registration's satoshi now, which an update, transfer or burn spends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from indexer.model import EventKind
from indexer.resolution import verdict
from overlay.listings.ids import parse_id
from overlay.publish.coins import Coin
from overlay.publish.scripts import payee
from overlay.publish.transactions import Draft
from overlay.text.safe_text import on_one_line
from parsers.bitcoin import address
from parsers.bitcoin.tx import Outpoint, Transaction, read_exactly
from parsers.cards import Kind, ToolConfig
from parsers.cards import read as read_card
from parsers.cards.deprecation import Deprecation, from_map, states_status
from parsers.errors import CardError, ParseError
from parsers.inscriptions import output_record

if TYPE_CHECKING:
    from overlay.verify import ListingSource

MAX_NAME = 100
"""Characters of a name in a sentence."""


class RegistrationError(Exception):
    """A registration that cannot be spent now, or not by this key; the message gives the reason."""


class RegistrationOutput(NamedTuple):
    """A registration's satoshi: its output as a coin; id, kind, `app` and owner of the registration, and the name in
    its card, or those of its servers. Its methods describe the effect of a transaction that spends it."""

    coin: Coin
    id: str
    kind: Kind
    app: str
    owner: str
    name: str

    def update_text(self, name: str | None) -> str:
        """An update to a card of this name, None for an update of the MAP alone."""
        return f"updates {self._title} {'without a new card' if name is None else f'to the card of {_quoted(name)}'}"

    def notice_text(self, notice: Deprecation | None) -> str:
        """A notice that it is deprecated, None for one that takes this back."""
        if notice is None:
            return f"says that {self._title} is not deprecated"
        successor = f" in favour of {on_one_line(notice.successor, MAX_NAME)}" if notice.successor else ""
        return f"deprecates {self._title}{successor}{f': {_quoted(notice.message)}' if notice.message else ''}"

    def transfer_text(self, owner: str) -> str:
        """A transfer to an address."""
        return f"transfers {self._title} to {owner}"

    def delisting_text(self) -> str:
        """A burn."""
        return f"delists {self._title} for good"

    @property
    def _title(self) -> str:
        return f"the {self.kind.value} {_quoted(self.name)}, {self.id},"


def registration_text(kind: Kind, name: str, owner: str) -> str:
    """The effect of a transaction that registers a card, in words."""
    return f"registers the {kind.value} {_quoted(name)} for {owner}"


class TransactionEffect(NamedTuple):
    """The effect of a transaction in the registry, in words, and its outputs with a registration: the one that it
    spends first, then new ones."""

    text: str
    outputs: tuple[int, ...]


def effect_of(held: RegistrationOutput | None, draft: Draft, network: str) -> TransactionEffect:
    """The effect of a transaction that spends a registration by input 0, or registers cards; the text is "" for
    another. The satoshi goes where the indexer follows it (law 3). Addresses are of a network. Raises
    RegistrationError."""
    changes: list[str] = []
    outputs: list[int] = []
    if held is not None and (vout := draft.destination.vout) is not None and not draft.destination.burned:
        changes, outputs = _update_texts(held, draft.tx, vout, network), [vout]
    elif held is not None:
        changes = [held.delisting_text()]
    for vout, output in enumerate(draft.tx.outputs):
        if vout not in outputs and output.satoshis == 1 and (texts := _new_texts(draft.tx, vout, network)):
            changes, outputs = changes + texts, [*outputs, vout]
    return TransactionEffect(" and ".join(changes), tuple(outputs))


def unknown_effect(draft: Draft, network: str) -> TransactionEffect:
    """The effect of a transaction on the satoshi of input 0, where the registration cannot be looked up."""
    vout, _, is_burned = draft.destination
    if vout is None:
        return TransactionEffect("the satoshi of input 0 goes to the fee, which delists a listing", ())
    output = draft.tx.outputs[vout]
    text = f"the satoshi of input 0 goes to {payee(output.script, network)}"
    if is_burned:
        return TransactionEffect(f"{text}, in an output of {output.satoshis:,}, which delists a listing", ())
    return TransactionEffect(text, (vout,))


def _update_texts(held: RegistrationOutput, tx: Transaction, vout: int, network: str) -> list[str]:
    """The effects on a registration of the record in the output that it goes to (law 4), in words."""
    record, script, changes = output_record.read(tx, vout), tx.outputs[vout].script, []
    event = verdict.judge_update(held.kind, record).event
    if event is EventKind.REINSCRIBED and record.inscription:
        changes.append(held.update_text(name_of(record.inscription.body, held.kind)))
    elif event is EventKind.MAP_ONLY and not states_status(record.fields):
        changes.append(held.update_text(None))
    if event in (EventKind.REINSCRIBED, EventKind.MAP_ONLY) and states_status(record.fields):
        changes.append(held.notice_text(from_map(record.fields)))
    if not changes or address.owner(script, "bsv", network) != address.owner(held.coin.script or b"", "bsv", network):
        changes.append(held.transfer_text(payee(script, network)))
    return changes


def _new_texts(tx: Transaction, vout: int, network: str) -> list[str]:
    """The registration of an output without one, if it is valid (law 1)."""
    record = output_record.read(tx, vout)
    judged = verdict.judge_registration(record, elsewhere=False, one_sat_rule=True)
    if judged is None or judged.event is not EventKind.INSCRIBED or not record.kind or not record.inscription:
        return []
    name = name_of(record.inscription.body, record.kind)
    return [registration_text(record.kind, name, payee(record.script, network))]


def _quoted(name: str) -> str:
    return f"\u201c{on_one_line(name, MAX_NAME)}\u201d"


def find(source: ListingSource, id_: str, *, is_trusted: bool = False) -> RegistrationOutput:
    """The output that holds the satoshi of this registration (an id without `#`). A source that is not trusted could
    name another registration of the same key: the transactions in its proof must lead from the id to this output.

    Raises RegistrationError, and what the source raises.
    """
    if "#" in id_:
        raise RegistrationError(f"{id_} is one server of a registration: give the id before the #")
    item = source.listing(id_)
    if "servers" in item:
        item = source.listing(item["servers"][0]) | {"id": item["id"]}
    _check(item, id_)
    outpoint, proof, card = Outpoint.parse(str(item["outpoint"])), source.proof(id_), source.card(id_)
    if not is_trusted:
        _check_lineage(id_, item, proof, card)
    located = proof.get("current") or proof
    try:
        tx = read_exactly(bytes.fromhex(located["rawTx"]))
        output = tx.outputs[outpoint.vout]
    except (ParseError, ValueError, KeyError, TypeError, IndexError):
        raise RegistrationError(f"the transaction of {outpoint} is not in the proof of {id_}") from None
    if tx.txid != outpoint.txid or output.satoshis != 1:
        raise RegistrationError(f"the proof of {id_} is not for an output of one satoshi at {outpoint}")
    kind = Kind.AGENT if item["type"] == "agent" else Kind.TOOL
    coin = Coin(outpoint, 1, output.script, _beef(located))
    name = name_of(card, kind)
    return RegistrationOutput(coin, id_, kind, item.get("app") or "", item.get("owner") or "", name)


def _check_lineage(id_: str, item: Mapping[str, Any], proof: Mapping[str, Any], card: bytes) -> None:
    """Follow the satoshi from the id to the outpoint of an item, through transactions that commit to each other by
    their txids. That they are in blocks is not checked: no node accepts what spends others. Raises
    RegistrationError."""
    from overlay.verify.satoshi_path import to_now
    from overlay.verify.server_answer import NotProvedError, read

    registration_id = parse_id(id_)[0]
    try:
        if item.get("id") != registration_id:
            raise NotProvedError(f"the answer is about {str(item.get('id'))[:100]!a}")
        state = to_now(read(registration_id, item, proof, card))
        if state.fields.get("app", "") != (item.get("app") or ""):
            raise NotProvedError(f"its app is {state.fields.get('app', '')!a}, and the answer names another")
    except (NotProvedError, ParseError) as error:
        raise RegistrationError(
            f"the server does not prove that {item['outpoint']} holds {id_}, so it is not spent: {error}; an index of "
            "your own needs no proof (without --url)"
        ) from None


def name_of(card: bytes, kind: Kind) -> str:
    """The name in a card, or the names of its servers. Raises RegistrationError for a card that is not valid."""
    try:
        shown = read_card(card, kind)
    except CardError as error:
        raise RegistrationError(f"the card of the registration is not valid: {error}") from None
    return ", ".join(server.name for server in shown.servers) if isinstance(shown, ToolConfig) else shown.name


def _beef(located: Mapping[str, Any]) -> bytes | None:
    try:
        return bytes.fromhex(located["beef"])
    except (KeyError, TypeError, ValueError):
        return None


def _check(item: Mapping[str, Any], id_: str) -> None:
    if not str(item.get("caip2", item.get("chain", ""))).startswith("bsv"):
        raise RegistrationError(f"{id_} is on {item.get('chain')}, and only registrations on BSV are written here")
    if item.get("status") != "live":
        raise RegistrationError(f"{id_} is {item.get('status')}, and only a live registration can be spent")
    if item.get("pending"):
        raise RegistrationError(f"{id_} has an unconfirmed revision: wait until it is mined, or it would be replaced")
    if not item.get("outpoint"):
        raise RegistrationError(f"{id_} is a pointer: publish the card at its location instead")
