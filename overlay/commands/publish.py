"""`a2b inscribe`, `point`, `deprecate`, `transfer`, `burn` and `broadcast`: write to the registry. Nothing is sent
without `--broadcast`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overlay.commands import sending
from overlay.commands.check import show_review
from overlay.commands.options import UsageError, add_json, add_url, ask, command, settings_of
from overlay.text.terminal import complain, say, say_json
from parsers.cards.deprecation import MAX_MESSAGE, Deprecation

if TYPE_CHECKING:
    from overlay.commands.options import Commands
    from overlay.publish.coins import Coin
    from overlay.publish.keys import PublisherKey
    from overlay.publish.registration_output import RegistrationOutput, TransactionEffect
    from overlay.publish.transactions import Draft
    from parsers.bitcoin.tx import Outpoint, Transaction
    from parsers.inscriptions.output_record import OutputRecord
    from parsers.reasons import Reason

MOST_REASONS = 4
"""Reasons that are printed why a transaction registers nothing."""

MAX_CARD_BYTES = 2 << 20
MAX_SAVED_BYTES = 32 << 20
COINS = ("bsv", "btc", "bch", "ltc", "doge")


def add(commands: Commands) -> None:
    """Add the commands that write to the registry."""
    dry = "A dry run, unless --broadcast is given: prints what it would cost, and the signed transaction."
    parser = _command(
        commands, "inscribe", inscribe, "Inscribe a card, or update one by re-inscription on its satoshi.", dry
    )
    parser.add_argument("file", metavar="FILE", nargs="?", help="the card or MCP config; none changes the MAP alone")
    parser.add_argument("--app", help="the name of the program that publishes [with --update: as before]")
    parser.add_argument("--type", choices=("agent", "tool"), help="what it is [by its shape]")
    parser.add_argument("--update", metavar="ID", help="the registration to update")
    parser.add_argument("--sigma", action="store_true", help="sign the inscription with the same key (SIGMA)")

    parser = _command(commands, "point", point, "Publish a pointer to the card that a domain serves.", dry)
    parser.add_argument("domain", metavar="DOMAIN", help="serves the card at /.well-known/agent.json")
    parser.add_argument("file", metavar="FILE", nargs="?", help="the card; the pointer states its SHA-256")
    parser.add_argument("--coin", choices=COINS, default="bsv", help="others: an unsigned transaction [bsv]")

    parser = _command(
        commands, "deprecate", deprecate, "Tell readers that a listing is deprecated, or take that back.", dry
    )
    parser.add_argument("id", metavar="ID", help="the registration; it stays listed, below others")
    parser.add_argument("--successor", metavar="ID", help="the listing to use instead, which pages show")
    parser.add_argument("--message", metavar="TEXT", help=f"to those who use it, at most {MAX_MESSAGE} characters")
    parser.add_argument("--undo", action="store_true", help="take it back")

    parser = _command(commands, "transfer", transfer, "Transfer a registration to another address.", dry)
    parser.add_argument("id", metavar="ID", help="the registration")
    parser.add_argument("to", metavar="ADDRESS", help="the new owner's P2PKH address")

    parser = _command(commands, "burn", burn, "Delist a registration for good: its satoshi is merged.", dry)
    parser.add_argument("id", metavar="ID", help="the registration")

    parser = command(
        commands, "sign", sign, "Sign an unsigned transaction that the page Register or another program prepared.",
        "data", "database", more=dry,
    )  # fmt: skip
    parser.add_argument("file", metavar="FILE", help="JSON with rawTx, and inputs of {outpoint, satoshis, script}")
    _add_results(parser)

    parser = command(
        commands, "broadcast", broadcast, "Send a saved transaction; sending it again is not an error.",
        "data", "database",
    )  # fmt: skip
    parser.add_argument("file", metavar="FILE", help="what another command saved with --out")
    add_url(parser, "the overlay to announce it to")
    _add_targets(parser)
    add_json(parser)


def _command(commands: Commands, name: str, run: Any, purpose: str, more: str) -> ArgumentParser:
    parser = command(commands, name, run, purpose, "data", "database", more=more)
    parser.add_argument(
        "--fee-rate", metavar="SATOSHIS", type=int, help="for each 1,000 bytes [50, or the least that --node mines]"
    )
    parser.add_argument(
        "--yes", action="store_true",
        help="take a --fee-rate above 10,000 or below what --node mines, or a card that the domain does not serve",
    )  # fmt: skip
    _add_results(parser)
    return parser


def _add_results(parser: ArgumentParser) -> None:
    add_url(parser, "the overlay to look registrations up in, and to announce to what is sent")
    parser.add_argument("--key-file", metavar="FILE", type=Path, help="the private key, in WIF or hex [A2B_KEY]")
    parser.add_argument(
        "--currency", metavar="CODE", default="USD", help="to show the cost in, by the local exchange rates [USD]"
    )
    parser.add_argument("--out", metavar="FILE", type=Path, help="save the signed transaction; needed to broadcast")
    parser.add_argument("--broadcast", action="store_true", help="send it through --node or --arc")
    _add_targets(parser)
    add_json(parser)


def _add_targets(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--coins", metavar="FILE", type=Path,
        help="JSON list of {txid, vout, satoshis} of the key; what is sent is replaced by its change",
    )  # fmt: skip
    parser.add_argument("--node", metavar="URL", help="a node, http://user:password@host:port; also lists coins")
    parser.add_argument("--arc", metavar="URL", help="an ARC server (its token in A2B_ARC_TOKEN)")
    parser.add_argument("--wait", action="store_true", help="after sending, until it is listed")


def inscribe(args: Namespace) -> int:
    """Register, or update."""
    from overlay.publish import scripts
    from overlay.publish.coins import largest_first
    from overlay.publish.transactions import with_sigma
    from parsers.cards import Kind

    key, registration = _key(args), _registration(args, args.update) if args.update else None
    if registration is None and (args.file is None or args.app is None):
        raise UsageError("a new registration needs FILE and --app NAME")
    card, checked = None, {}
    if args.file is not None:
        card = _read(Path(args.file), MAX_CARD_BYTES)
        if registration is not None and args.type not in (None, registration.kind.value):
            raise UsageError(
                f"{args.update} is registered as {registration.kind.value}: an update does not change that"
            )
        kind_name = args.type or (registration.kind.value if registration else None)
        checked = _checked(args, card, kind_name, key.address, args.update or "")
        if not checked["ok"]:
            return _show_invalid(checked, as_json=args.json)
    kind = registration.kind if registration else Kind(checked["preview"]["type"])
    app = args.app or (registration.app if registration else "")
    coins, first = _coins(args, key), registration.coin if registration else None
    try:
        script = scripts.metadata(key.script, kind, app) if card is None else scripts.inscription(
            key.script, card, kind, app
        )  # fmt: skip
    except ValueError as error:
        raise UsageError(str(error)) from None
    if args.sigma:
        script = with_sigma(script, first or largest_first(coins)[0], key)
    return _finish(args, key, [(1, script)], coins, registration, checked, args.update or "")


def point(args: Namespace) -> int:
    """Publish a pointer."""
    from overlay.publish import scripts

    card = _read(Path(args.file), MAX_CARD_BYTES) if args.file else None
    checked = _checked(args, card, None) if card is not None else {}
    if checked and not checked["ok"]:
        return _show_invalid(checked, as_json=args.json)
    try:
        outputs = scripts.pointers(args.domain, card, args.coin)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if card is not None:
        _compare_served(args, card)
    if args.coin != "bsv":
        return _show_scripts(outputs, args)
    key = _key(args)
    return _finish(args, key, [(0, script) for script in outputs], _coins(args, key), None, checked, "")


def _compare_served(args: Namespace, card: bytes) -> None:
    """Compare a card with what the domain serves, which readers will compare with its SHA-256. Raises UsageError before
    a pointer is sent that does not match, unless --yes takes it."""
    import asyncio
    from functools import partial

    from indexer.fetcher.on_demand import OF_CARDS, OnDemandFetcher
    from overlay.app.fetching import build_fetcher
    from overlay.publish.served_difference import served_difference

    fetcher = OnDemandFetcher(partial(build_fetcher, settings_of(args)), limits=OF_CARDS)
    difference = asyncio.run(served_difference(fetcher.get, args.domain, card))
    if difference and args.broadcast and not args.yes:
        raise UsageError(f"{difference}: the pointer would not match (--yes sends it)")
    if difference:
        complain(f"the pointer would not match: {difference}")


def deprecate(args: Namespace) -> int:
    """Call a listing deprecated, or take that back."""
    from overlay.listings.ids import parse_id
    from overlay.publish import scripts

    if args.undo and (args.successor or args.message):
        raise UsageError("--undo takes neither --successor nor --message")
    if args.successor and parse_id(args.successor) == parse_id(args.id):
        raise UsageError("the successor is the listing itself")
    notice = None if args.undo else Deprecation(args.successor or "", (args.message or "").strip())
    key, registration = _key(args), _registration(args, args.id)
    try:
        script = scripts.notice(key.script, registration.kind, registration.app, notice)
    except ValueError as error:
        raise UsageError(str(error)) from None
    return _finish(args, key, [(1, script)], _coins(args, key), registration, {}, args.id)


def transfer(args: Namespace) -> int:
    """Transfer to another owner."""
    from parsers.bitcoin.address import key_hash
    from parsers.bitcoin.script import p2pkh

    to = key_hash(args.to)
    if to is None:
        raise UsageError(f"{args.to[:100]!a} is not a P2PKH address of BSV")
    key, registration = _key(args), _registration(args, args.id)
    return _finish(args, key, [(1, p2pkh(to))], _coins(args, key), registration, {}, args.id)


def burn(args: Namespace) -> int:
    """Delist."""
    key, registration = _key(args), _registration(args, args.id)
    return _finish(args, key, [], _coins(args, key), registration, {}, args.id)


def sign(args: Namespace) -> int:
    """Sign a transaction from a file."""
    import json

    from overlay.publish.scripts import payee
    from overlay.publish.wallet_file import read_draft

    key = _key(args)
    try:
        document = json.loads(_read(Path(args.file), MAX_SAVED_BYTES))
    except (ValueError, RecursionError):
        raise UsageError(f"{args.file} is not JSON") from None
    draft, listing = read_draft(document), str(document.get("listing") or "")
    if not args.json:
        for number, output in enumerate(draft.tx.outputs):
            say(f"output {number}: {output.satoshis:,} satoshis to {payee(output.script, key.network)}")
    effect = _effect(args, key, draft, listing)
    if args.broadcast:
        _check_effect(args, draft, effect)
    if args.node:
        _check_with_node(args, key, draft)
    return sending.finish(args, key, draft, _checked_outputs(args, key, draft, listing, effect), listing, effect)


def _check_effect(args: Namespace, draft: Draft, effect: TransactionEffect) -> None:
    """Raise RegistrationError for a transaction that changes nothing in the registry, with the reason."""
    from overlay.publish.registration_output import RegistrationError
    from parsers.inscriptions import output_record

    if effect.text:
        return
    records = [output_record.read(draft.tx, vout) for vout in range(len(draft.tx.outputs))]
    if any(record.pointer for record in records):
        return
    reasons = [reason.explanation for reason in _reasons_against(draft.tx, records)]
    raise RegistrationError(
        f"{args.file} registers nothing, and is not sent: {'; '.join(reasons) or 'no output has a card'}"
    )


def _check_with_node(args: Namespace, key: PublisherKey, draft: Draft) -> None:
    """Raise CoinsError where the node does not have the coins of a file as the file states them, or does not mine for
    its fee."""
    import asyncio

    from indexer.errors import SourceError
    from overlay.publish.coins import CoinsError
    from overlay.publish.node_checks import coin_faults, opened
    from overlay.publish.transactions import signed_size

    async def check() -> None:
        async with opened(args.node) as node:
            for outpoint, fault in (await coin_faults(node, draft.coins, key.script)).items():
                raise CoinsError(f"coin {outpoint} {fault}")
            rate, least = draft.fee * 1_000 // signed_size(draft.tx), await node.least_fee_rate()
            if rate < least:
                raise CoinsError(f"it pays {rate:,} satoshis for 1,000 bytes, and the node mines from {least:,}")

    try:
        asyncio.run(check())
    except SourceError as error:
        complain(f"the coins are not checked: {error}")


def broadcast(args: Namespace) -> int:
    """Send a saved transaction."""
    import json

    try:
        saved = sending.OutgoingTransaction.of(json.loads(_read(Path(args.file), MAX_SAVED_BYTES)))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UsageError(f"{args.file} is not a transaction as --out saves it") from None
    sending.send(args, saved, Path(args.file))
    if not args.json:
        say(f"sent {saved.txid}")
    elif not args.wait:
        say_json({"txid": saved.txid, "sent": True})
    return sending.follow_up(args, saved) if args.url or args.wait else 0


def _finish(
    args: Namespace,
    key: PublisherKey,
    outputs: Sequence[tuple[int, bytes]],
    coins: Sequence[Coin],
    registration: RegistrationOutput | None,
    checked: Mapping[str, Any],
    id_: str,
) -> int:
    """Build and sign, and then show, save and send the transaction that concerns a listing (`sending.finish`)."""
    from overlay.publish.registration_output import effect_of
    from overlay.publish.transactions import ABSURD_FEE_RATE, DEFAULT_FEE_RATE, fund
    from parsers.bitcoin.tx import TxOutput

    if args.fee_rate is not None and not 0 < args.fee_rate <= 1_000_000:
        raise UsageError("--fee-rate is from 1 to 1,000,000 satoshis for 1,000 bytes")
    least = _least_fee_rate(args)
    rate = args.fee_rate or max(DEFAULT_FEE_RATE, least)
    if rate < least and not args.yes:
        raise UsageError(f"--fee-rate {rate} is below {least:,}, from which the node mines: --yes takes it")
    if rate > ABSURD_FEE_RATE and not args.yes:
        raise UsageError(f"--fee-rate {rate} is {rate // DEFAULT_FEE_RATE:,} times the usual one: --yes takes it")
    built = [TxOutput(satoshis, script) for satoshis, script in outputs]
    first = registration.coin if registration else None
    draft = fund(built, coins, key.script, fee_rate=rate, first=first, merge=not built)
    return sending.finish(args, key, draft, checked, id_, effect_of(registration, draft, key.network))


def _least_fee_rate(args: Namespace) -> int:
    """Satoshis for 1,000 bytes from which the node mines, 0 without a node."""
    import asyncio

    from overlay.publish.node_checks import opened

    if not args.node:
        return 0

    async def least() -> int:
        async with opened(args.node) as node:
            return await node.least_fee_rate()

    return asyncio.run(least())


def _checked_outputs(
    args: Namespace, key: PublisherKey, draft: Draft, id_: str, effect: TransactionEffect
) -> dict[str, Any]:
    """The check of the cards in the outputs with a registration, or of the one in the first output, which registers
    nothing: the preview shows the first one, the warnings are of all."""
    from parsers.inscriptions import output_record

    vouts = effect.outputs or range(len(draft.tx.outputs[:1]))
    inscriptions = [output_record.read(draft.tx, vout).inscription for vout in vouts]
    checks = [_checked(args, shown.body, None, key.address, id_) for shown in inscriptions if shown]
    return checks[0] | {"warnings": [warning for check in checks for warning in check["warnings"]]} if checks else {}


def _effect(args: Namespace, key: PublisherKey, draft: Draft, id_: str) -> TransactionEffect:
    """The effect of a transaction from a file, which may spend the registration of the id alone, by input 0; without
    words for a payment, and where there is no local database with the listing, unless it is sent. Raises
    RegistrationError, UsageError."""
    from overlay.app.storage import MissingError
    from overlay.listings.lookup import ListingNotFoundError
    from overlay.publish.registration_output import RegistrationError, effect_of, unknown_effect

    first, ones = draft.coins[0].outpoint, [coin.outpoint for coin in draft.coins if coin.satoshis == 1]
    if not id_ and ones:
        raise RegistrationError(
            f"{args.file} spends {ones[0]}, which may hold a registration: its listing must name it"
        )
    if not id_:
        return effect_of(None, draft, key.network)
    if ones != [first]:
        raise RegistrationError(
            f"{args.file} must spend the satoshi of {id_} by input 0 and no other output of one satoshi"
        )
    try:
        held = _registration(args, id_)
    except (MissingError, ListingNotFoundError) as error:
        if args.broadcast:
            raise
        if isinstance(error, ListingNotFoundError):
            _check_not_held(args, first, id_)
        effect = unknown_effect(draft, key.network)
        complain(f"not looked up: what {id_} is, and whether {first} holds it (--url does); {effect.text}")
        return effect._replace(text="")
    if held.coin.outpoint != first:
        raise RegistrationError(f"{args.file} spends {first}, and {id_} is at {held.coin.outpoint}")
    return effect_of(held, draft, key.network)


def _check_not_held(args: Namespace, outpoint: Outpoint, id_: str) -> None:
    """Raises RegistrationError where an output holds another registration than the id in the local data, or did."""
    from overlay.app.storage import open_store
    from overlay.listings.repository import ListingRepository
    from overlay.publish.registration_output import RegistrationError

    with closing(open_store(settings_of(args), create=False)) as store:
        ids = ListingRepository(store).ids_of(outpoint.txid, outpoint)
    if ids and ids != [id_]:
        raise RegistrationError(
            f"{args.file} spends {outpoint}, the satoshi of {', '.join(ids)}, and its listing is {id_}"
        )


def _show_invalid(checked: Mapping[str, Any], *, as_json: bool) -> int:
    if as_json:
        say_json(checked)
    else:
        show_review({**checked, "warnings": ()})
        say("invalid: nothing was built")
    return 1


def _show_scripts(outputs: Sequence[bytes], args: Namespace) -> int:
    from parsers.bitcoin.tx import TxOutput, serialise

    raw = serialise((), tuple(TxOutput(0, script) for script in outputs)).hex()
    if args.json:
        scripts = [{"satoshis": 0, "script": script.hex()} for script in outputs]
        say_json({"coin": args.coin, "outputs": scripts, "rawTx": raw})
    else:
        say(f"pay 0 to {'these scripts, in this order' if len(outputs) > 1 else 'this script'} on {args.coin}:")
        for script in outputs:
            say(script.hex())
        say("the same as a transaction without inputs, for fundrawtransaction of a node's wallet:")
        say(raw)
    return 0


def _key(args: Namespace) -> PublisherKey:
    from overlay.publish.keys import read

    return read(args.key_file)


def _coins(args: Namespace, key: PublisherKey) -> list[Coin]:
    from overlay.publish.coins import CoinsError, largest_first

    coins = _usable_coins(args, key)
    if not largest_first(coins):
        raise CoinsError(f"there are no coins of more than one satoshi: pay some satoshis to {key.address} first")
    return coins


def _usable_coins(args: Namespace, key: PublisherKey) -> list[Coin]:
    import asyncio

    from overlay.publish.coins import from_file, from_node, largest_first
    from overlay.publish.node_checks import coin_faults, network_fault, opened
    from overlay.publish.transactions import MAX_INPUTS

    if args.coins is not None:
        coins = from_file(args.coins)
        if not args.node:
            return coins
        usable = largest_first(coins)[:MAX_INPUTS]

        async def look() -> tuple[dict[Outpoint, str], str]:
            async with opened(args.node) as node:
                return await coin_faults(node, usable, key.script), await network_fault(node, key.network)

        faults, mismatch = asyncio.run(look())
        if mismatch:
            complain(mismatch)
        for outpoint, fault in faults.items() if not args.json else ():
            say(f"not used: coin {outpoint} {fault}")
        return [coin for coin in usable if coin.outpoint not in faults]
    if args.node:
        return asyncio.run(from_node(args.node, key.address))
    raise UsageError(f"give --coins FILE, or --node URL of a node with a wallet that watches {key.address}")


def _registration(args: Namespace, id_: str) -> RegistrationOutput:
    """Where the registration's satoshi is now."""
    from overlay.publish.registration_output import find

    if args.url:
        from overlay.client import OverlayClient
        from overlay.client.listing_source import ClientSource

        with OverlayClient(args.url) as client:
            return find(ClientSource(client.ask), id_)
    from overlay.app.storage import open_store
    from overlay.listings.local_source import LocalSource
    from overlay.listings.repository import ListingRepository

    with closing(open_store(settings_of(args), create=False)) as store:
        return find(LocalSource(ListingRepository(store)), id_, is_trusted=True)


def _checked(args: Namespace, card: bytes, kind: str | None, owner: str = "", id_: str = "") -> dict[str, Any]:
    """The check of a card, which this process makes; compared with the listings of `--url`, or of the local index."""
    from overlay.listings.card_check import check

    checked = check(card, kind)
    if not checked["ok"]:
        return checked
    if args.url:
        compared = ask(args.url, lambda calls: calls.check(card, kind, owner=owner, id_=id_))
        return {**checked, "warnings": compared["warnings"], "compared": compared.get("compared", False)}
    from overlay.app.compilation import wait_until_compiled
    from overlay.app.storage import MissingError, open_index

    try:
        index = open_index(settings_of(args), create=False)
    except MissingError:
        return checked
    from overlay.duplicates.earlier_listings import EarlierListings

    with closing(index):
        wait_until_compiled()
        return check(card, kind, EarlierListings(index.search, owner, id_).reasons) | {"compared": True}


def _reasons_against(tx: Transaction, records: Iterable[OutputRecord]) -> list[Reason]:
    """Reasons against registrations in the outputs of a transaction, whose records these are."""
    from indexer.diagnosis.ignored_records import ignored_records
    from indexer.headers.networks import RULES
    from indexer.resolution import verdict

    judged = [verdict.judge_registration(record, elsewhere=False, one_sat_rule=True) for record in records]
    ignored = ignored_records(tx, RULES["bsv"], set(), MOST_REASONS)
    return [reason for event in (*judged, *ignored) if event for reason in event.reasons][:MOST_REASONS]


def _read(file: Path, most: int) -> bytes:
    with file.open("rb") as opened:
        body = opened.read(most + 1)
    if len(body) > most:
        raise UsageError(f"{file} is larger than {most:,} bytes")
    return body
