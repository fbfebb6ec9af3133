"""`a2b pay-check`: whether a payment claim would be taken, without paying."""

from __future__ import annotations

from argparse import Namespace
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overlay.commands.options import UsageError, add_json, add_url, ask, command, print_answer, settings_of
from overlay.text.safe_text import on_one_line
from overlay.text.terminal import say

if TYPE_CHECKING:
    from collections.abc import Mapping

    from indexer.chains.node.payment_node import Broadcaster
    from indexer.settings import Settings
    from overlay.commands.options import Commands
    from overlay.systems.payments.checking import PaymentSources
    from parsers.cards.offers import Offer

MAX_BYTES = 1 << 20
STATES = ("pending", "running", "needsFinal", "completed", "failed")

_PAYMENT = {"stage", "configId", "txid", "address", "paidSatoshis", "neededSatoshis", "leastSatoshis"}
"""The members of an answer about a transaction that could be read."""


def add(commands: Commands) -> None:
    """Add `a2b pay-check`."""
    parser = command(
        commands, "pay-check", pay_check,
        "Whether a payment claim would be taken for a price; sends nothing. Exit code 1 when it would not.",
        "data", "database", "chains", more="The inputs are checked by the nodes among the chains.", settings_file=False,
    )  # fmt: skip
    parser.add_argument("claim", metavar="CLAIM.json", type=Path, help="the claim: configId, stage, rawTx, currency")
    priced = parser.add_mutually_exclusive_group(required=True)
    priced.add_argument("--config", metavar="ID", dest="id", help="the listing with the price that the claim names")
    priced.add_argument(
        "--card",
        metavar="FILE",
        type=Path,
        help="a card or price list with that price, of main networks unless a node reports another one",
    )
    parser.add_argument("--skill", metavar="ID", help="the skill that is paid for [any]")
    parser.add_argument("--state", choices=STATES, help="of the task that is paid [any]")
    parser.set_defaults(config=None)
    add_url(parser)
    add_json(parser)


def pay_check(args: Namespace) -> int:
    """Print whether the claim would be taken, and why not."""
    claim = _read(args.claim)
    if args.url:
        answer = _ask(args, claim)
    else:
        import asyncio

        answer = asyncio.run(_check(args, claim))
    print_answer(args, answer, _show)
    return 0 if answer["ok"] else 1


def _read(file: Path) -> Any:
    from parsers.cards import strict_json
    from parsers.errors import CardError

    with file.open("rb") as opened:
        body = opened.read(MAX_BYTES + 1)
    try:
        return strict_json.loads(body)[0]
    except CardError as error:
        raise UsageError(f"{file}: {error.about('the file')}") from None


def _ask(args: Namespace, claim: Any) -> Any:
    priced = {"id": args.id} if args.id else {"config": _read(args.card)}
    body = {"claim": claim, "skillId": args.skill, "state": args.state, **priced}
    return ask(args.url, lambda calls: calls.pay_check(body))


async def _check(args: Namespace, claim: Any) -> dict[str, Any]:
    from indexer.chains.node.payment_node import nodes_of
    from overlay.commands.search import exchange_of
    from overlay.systems.payments.checking import PaymentSources, check_claim
    from parsers.bitcoin.address import PREFIXES
    from parsers.claims.payment import UtxoChain

    settings = settings_of(args)
    nodes = nodes_of(settings.sources())
    try:
        if args.card:
            offers = _priced(args.card)
            chains = {coin.upper(): UtxoChain(coin, "mainnet") for coin in PREFIXES}
            chains |= {ticker: await node.chain() for ticker, node in nodes.items()}
            sources = PaymentSources(chains=chains, nodes=nodes, exchange=exchange_of(settings))
        else:
            offers, sources = _stored(settings, args.id, nodes)
        return await check_claim(claim, offers, sources, skill=args.skill, state=args.state)
    finally:
        for node in nodes.values():
            await node.close()


def _priced(file: Path) -> tuple[Offer, ...]:
    from overlay.systems.payments.checking import UnreadableOfferError, offers_in

    try:
        return offers_in(_read(file))
    except UnreadableOfferError as error:
        raise UsageError(f"{file}: {error}") from None


def _stored(settings: Settings, id_: str, nodes: Mapping[str, Broadcaster]) -> tuple[tuple[Offer, ...], PaymentSources]:
    """The prices of a listing in the local store, and the chains and exchange rates there."""
    from indexer.headers.networks import ticker_of
    from indexer.store.rates import Quotes
    from overlay.app.storage import in_configured_order, open_store
    from overlay.listings.lookup import single_listing
    from overlay.listings.repository import ListingRepository
    from overlay.pricing.exchange_rates import ExchangeRates
    from overlay.systems.payments.checking import PaymentSources, utxo_chains
    from parsers.cards.offers import in_coin

    with closing(open_store(settings, create=False)) as store:
        exchange = ExchangeRates(Quotes(store.engine).newest)
        exchange.refresh()
        chains = utxo_chains(in_configured_order(settings, store.chains()))
        listing = single_listing(ListingRepository(store), id_)
        offers = tuple(in_coin(offer, ticker_of(listing.caip2)) for offer in listing.card.offers)
        return offers, PaymentSources(chains=chains, nodes=nodes, exchange=exchange)


def _show(answer: Any) -> None:
    if answer.keys() >= _PAYMENT:
        say(f"{answer['stage']} of {on_one_line(answer['configId'])} by {answer['txid']}")
        paid, needed, least = (answer[f"{name}Satoshis"] for name in ("paid", "needed", "least"))
        say(f"pays {paid:,} satoshis to {on_one_line(answer['address'])}, of {needed:,} due (at least {least:,})")
    for reason in answer["reasons"]:
        codes = f"{answer.get('code', '')} {on_one_line(answer.get('error', ''))}".strip()
        say(f"{codes}: {on_one_line(reason['detail'])}")
    for reason in answer["unchecked"]:
        say(f"not checked: {on_one_line(reason['detail'])}")
    say("would be taken" if answer["ok"] else "refused")
