"""`a2b hire`, `a2b hires` and `a2b wallet`: from a need to a paid result, with a wallet of one's own."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overlay.commands.options import URL, UsageError, add_json, add_url, command
from overlay.text.safe_text import on_one_line
from overlay.text.terminal import complain, say, say_json
from parsers.claims.complaint_codes import CODES, WITHDRAWN

if TYPE_CHECKING:
    from overlay.client.hire.call_price import RateOf
    from overlay.client.hire.hire_candidates import HireCandidate
    from overlay.client.hire.hiring import HireRequest, HireTerms, Hiring
    from overlay.client.hire.journal import Hire
    from overlay.client.hire.wallet import Wallet
    from overlay.commands.options import Commands
    from overlay.publish.coins import Coin

RATES = "A2B_RATES"
"""The variable that names feeds of exchange rates."""

MAX_INPUT = 16 << 20
"""Bytes of an input."""


def add(commands: Commands) -> None:
    """Add `a2b hire`, `a2b hires` and `a2b wallet`."""
    _add_hire(commands)
    _add_hires(commands)
    _add_wallet(commands)


def _add_hire(commands: Commands) -> None:
    parser = command(
        commands, "hire", hire,
        "Hire an agent or tool: find, verify, ask you, pay, call, and store the answer. Exit code 1 when nobody fits, "
        "you do not agree, or it fails, 3 when it cannot be reached: --resume goes on.",
        more="Prices and addresses are read from the card, which is verified here. Nothing is paid twice: a journal in "
        "the wallet has each step before it is done.",
    )  # fmt: skip
    parser.add_argument("need", metavar="NEED|ID", nargs="?", help="words, or the id of a listing")
    add_url(parser, "the overlay to ask")
    cap = parser.add_argument_group("the most that it may cost, fee included")
    cap.add_argument("--max-satoshis", metavar="N", type=int, help="satoshis of the coin that is paid")
    cap.add_argument("--max-price", metavar="AMOUNT", help="an amount of --price-currency")
    cap.add_argument("--price-currency", metavar="CODE", default="USD", help="the currency of --max-price [USD]")
    task = parser.add_argument_group("the task")
    task.add_argument("--input", metavar="FILE|-", help="what is sent, - for standard input [the words themselves]")
    task.add_argument("--out", metavar="FOLDER", type=Path, help="where the answer is stored [in the wallet]")
    task.add_argument("--offer", metavar="ID", default="", help="the price by its id [the lowest]")
    task.add_argument("--skill", metavar="ID", default="", help="the skill that is asked for")
    task.add_argument(
        "--tool", metavar="NAME", default="", help="the tool of an MCP server; the input is a JSON object"
    )
    task.add_argument("--http", action="store_true", help="call the card's URL by plain HTTP instead of A2A")
    newest = parser.add_argument_group("what shows that the listing's revision is the newest")
    newest.add_argument("--headers", metavar="URL|FILE", help="your own node or file of headers, as of `a2b verify`")
    newest.add_argument(
        "--against", metavar="URL", action="append", default=[], help="another overlay; may be repeated"
    )
    newest.add_argument("--newest-unchecked", action="store_true", help="take any revision that is proved")
    parser.add_argument(
        "--chain", metavar="CAIP2", help="the chain to expect it on, such as bsv:mainnet [any main one]"
    )
    parser.add_argument("--yes", action="store_true", help="without a question, within policy.toml of the wallet")
    parser.add_argument("--allow-local", action="store_true", help="call http and private addresses, for test networks")
    parser.add_argument(
        "--resume", metavar="HIRE", nargs="?", const="", help="go on with an interrupted hire [the newest open one]"
    )
    parser.add_argument("--approve", metavar="CODE", help="agree to what a model asked for with the tool `hire`")
    parser.add_argument(
        "--cancel", metavar="HIRE", help="take a hire back: spend its coins to yourself by --node or --arc"
    )
    parser.add_argument("--node", metavar="URL", help="a node that sends it, http://user:password@host:port")
    parser.add_argument("--arc", metavar="URL", help="an ARC that sends it")
    _add_wallet_options(parser)
    add_json(parser)


def _add_hires(commands: Commands) -> None:
    parser = command(commands, "hires", hires, "Print the hires of a wallet, or one of them.")
    parser.add_argument("hire", metavar="HIRE", nargs="?", help="its id, or the beginning of it")
    parser.add_argument("--rate", action="store_true", help="submit its receipt: publishes who paid whom and when")
    parser.add_argument("--complain", choices=CODES, help="publish a complaint, signed by the key that paid")
    parser.add_argument("--withdraw", action="store_true", help="take that complaint back")
    parser.add_argument("--node", metavar="URL", help="a node that proves the payment [the overlay]")
    _add_wallet_options(parser)
    add_json(parser)


def _add_wallet(commands: Commands) -> None:
    parser = command(
        commands, "wallet", wallet, "Print the address and balance of a wallet, make a new one, or add coins.",
        more="The key is in the folder, and whoever reads it can spend the coins: keep little there.",
    )  # fmt: skip
    parser.add_argument(
        "what", metavar="new|add|coins", nargs="?", choices=("new", "add", "coins"),
        help="new: make a wallet; add: add the coin of an output; coins: add those of its address that --node has, or "
        "a service: A2B_COINS=whatsonchain:URL, which sees your address [none]",
    )  # fmt: skip
    parser.add_argument("output", metavar="TXID_OUTPUT", nargs="?", help="the output to add")
    parser.add_argument("--beef", metavar="FILE", type=Path, help="the BEEF of its transaction, bytes or hex")
    parser.add_argument("--node", metavar="URL", help="a node whose wallet watches the address")
    parser.add_argument("--network", choices=("mainnet", "testnet"), default="mainnet", help="of a new key [mainnet]")
    _add_wallet_options(parser)
    add_json(parser)


def _add_wallet_options(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("the wallet")
    group.add_argument("--wallet", metavar="FOLDER", type=Path, help="its folder [A2B_WALLET, else ~/.a2b]")
    group.add_argument("--key-file", metavar="FILE", type=Path, help="a key instead of that in the folder")
    group.add_argument("--coins", metavar="FILE", type=Path, help="coins instead of those in the folder")


def hire(args: Namespace) -> int:
    """Hire, or go on with a hire, and print the answer."""
    import asyncio

    done = asyncio.run(_hire(args) if args.cancel is None else _cancel(args))
    if args.json:
        say_json(hire_json(done))
        return 0
    for file in done.files:
        say(f"stored {file}")
    if done.claims:
        say(f"receipt: {_receipt_words(done)}")
    _say_short_answer(done)
    return 0


async def _cancel(args: Namespace) -> Hire:
    """Take a hire back."""
    from overlay.client.hire.cancelling import cancel
    from overlay.publish.broadcast import to_arc, to_node
    from overlay.publish.transactions import Draft

    held = _wallet(args)

    async def send(draft: Draft) -> None:
        if bool(args.node) == bool(args.arc):
            raise UsageError("its coins are spent again: name --node URL or --arc URL that sends the transaction")
        await (to_node(args.node, draft.raw) if args.node else to_arc(args.arc, draft.extended, draft.tx.hex_id))

    return await cancel(held.journal.get(args.cancel), held, send)


async def _hire(args: Namespace) -> Hire:
    from overlay.client import AsyncOverlayClient

    held = _wallet(args)
    named = args.approve or args.resume
    if named is None and not args.need:
        raise UsageError("name a need or an id, or --resume")
    resumed = None if named is None else held.journal.get(named)
    if args.approve and resumed is not None:
        resumed = await _approved(held, resumed)
    url = resumed.url if resumed is not None else args.url
    if not url:
        raise UsageError(f"name an overlay with --url URL, or set {URL}")
    async with AsyncOverlayClient(url) as client:
        hiring = _hiring(args, client, held)
        return await (hiring.hire(_request(args)) if resumed is None else hiring.proceed(resumed))


async def _approved(held: Wallet, offered: Hire) -> Hire:
    """The hire that a model asked for, once the person agrees. Raises NoConsentError."""
    from dataclasses import replace

    from overlay.client.hire.hiring import HireTerms, NoConsentError
    from overlay.client.hire.journal import HireState

    if offered.state is not HireState.OFFERED:
        return offered
    most = offered.most_satoshis if offered.price else 0
    terms = HireTerms(
        candidate=None, hire=offered, address=str(offered.price.get("address", "")), satoshis=most, total=most,
        objection=offered.detail,
    )  # fmt: skip
    if not await _agree(terms):
        raise NoConsentError("it was not agreed to")
    return held.journal.save(replace(offered, by_policy=False, detail=""), state=HireState.AGREED)


def _rates(text: str) -> RateOf:
    """The rates of the feeds in `A2B_RATES`. Raises UsageError."""
    from indexer.rates.feed_urls import rate_feeds
    from overlay.client.hire.client_rates import ClientRates

    try:
        return ClientRates(rate_feeds(text), tell=complain).rate
    except ValueError as error:
        raise UsageError(f"{RATES}: {error}") from None


def _hiring(args: Namespace, client: Any, held: Wallet) -> Hiring:
    from overlay.client.hire.hiring import Hiring, agree_by_policy, pick_first
    from overlay.verify.trusted_source import open_source

    return Hiring(
        client, held, trusted=open_source(args.headers) if args.headers else None, against=args.against,
        newest_unchecked=args.newest_unchecked, expected=args.chain, allow_local=args.allow_local, tell=complain,
        rate_of=_rates(os.environ.get(RATES, "")),
        pick=pick_first if args.yes else _pick, agree=agree_by_policy if args.yes else _agree,
    )  # fmt: skip


def _request(args: Namespace) -> HireRequest:
    from overlay.client.hire.call_price import Cap
    from overlay.client.hire.hiring import HireRequest

    cap = Cap(args.max_satoshis)
    if args.max_price is not None:
        if args.max_satoshis is not None:
            raise UsageError("--max-satoshis and --max-price name two caps")
        cap = Cap(amount=_amount(args.max_price), currency=args.price_currency.upper())
    content, name = _input(args)
    return HireRequest(
        need=args.need, content=content, is_text=_is_text(content), name=name, cap=cap, offer=args.offer,
        skill=args.skill, tool=args.tool, over_http=args.http, within_policy=args.yes,
        out=str(args.out.absolute()) if args.out else "",
    )  # fmt: skip


def _amount(text: str) -> Decimal:
    try:
        amount = Decimal(text)
    except InvalidOperation:
        amount = Decimal(-1)
    if not amount.is_finite() or amount < 0:
        raise UsageError(f"--max-price is not an amount: {text[:100]!a}")
    return amount


def _input(args: Namespace) -> tuple[bytes, str]:
    """The input and its file name."""
    if args.input is None:
        return args.need.encode("utf-8", "surrogateescape"), ""
    if args.input == "-":
        content, name = sys.stdin.buffer.read(MAX_INPUT + 1), ""
    else:
        with Path(args.input).open("rb") as opened:
            content, name = opened.read(MAX_INPUT + 1), Path(args.input).name
    if len(content) > MAX_INPUT:
        raise UsageError(f"the input has more than {MAX_INPUT:,} bytes")
    return content, name


def _is_text(content: bytes) -> bool:
    try:
        return "\0" not in content.decode()
    except UnicodeDecodeError:
        return False


async def _pick(fitting: Sequence[HireCandidate]) -> HireCandidate | None:
    """The candidate that a person picks; the only one without a question."""
    for number, candidate in enumerate(fitting, 1):
        say(f"{number}. {on_one_line(candidate.item['name'])}  {_price_words(candidate)}")
        say(f"   {candidate.item['id']}")
        for reason in candidate.reasons:
            say(f"   - {on_one_line(reason)}")
    if len(fitting) == 1:
        return fitting[0]
    answer = _typed(f"Which one (1 to {len(fitting)}, nothing for none)? ")
    return fitting[int(answer) - 1] if answer.isdigit() and 0 < int(answer) <= len(fitting) else None


def _price_words(candidate: HireCandidate) -> str:
    price = candidate.price
    if price is None:
        return "no price"
    stated = "" if price.offer.currency == price.currency else f" ({price.offer.amount} {price.offer.currency})"
    return f"{price.total:,} satoshis of {price.currency}{on_one_line(stated)}"


async def _agree(terms: HireTerms) -> bool:
    """Show the terms to a person; returns whether it agrees."""
    from overlay.client.hire.hire_candidates import host_of

    hire_, host = terms.hire, host_of(terms.hire.endpoint)
    say()
    if terms.is_final:
        say(f"{on_one_line(hire_.agent)} has done the work: {terms.satoshis:,} satoshis of {hire_.currency} are due.")
    else:
        named = terms.candidate is not None and terms.candidate.is_named
        size = len(hire_.content) if hire_.is_text else len(hire_.content) // 2
        what = f"{on_one_line(hire_.name)}, " if hire_.name else ""
        say(f"to      {on_one_line(hire_.agent)}, {hire_.listing}")
        say(f"host    {host}{'' if named else ', which does not name the listing'}")
        say(f"sends   {what}{size:,} bytes")
    if terms.satoshis:
        of = f" of {terms.total:,}" if terms.total != terms.satoshis else ""
        say(f"pays    {terms.satoshis:,} satoshis{of} of {hire_.currency} and the fee, {hire_.most_satoshis:,} at most")
        say(f"address {terms.address}")
        say("        A rating would publish which address paid whom, when and how much.")
    if terms.objection:
        say(f"note    {on_one_line(terms.objection)}")
    return _typed("Go on (y or n)? ").lower() in ("y", "yes")


def _typed(question: str) -> str:
    """The line that a person types; "" where standard input is not a terminal."""
    if not sys.stdin.isatty():
        return ""
    sys.stdout.write(question)
    sys.stdout.flush()
    return sys.stdin.readline().strip()


def _say_short_answer(done: Hire) -> None:
    """Print an answer of a single short text: data of a stranger."""
    files = [Path(file) for file in done.files]
    if len(files) == 1 and files[0].suffix in (".txt", ".json") and files[0].stat().st_size <= 4_000:
        say()
        say(files[0].read_text("utf-8", "replace"))


def hires(args: Namespace) -> int:
    """Print hires."""
    if args.rate or args.complain or args.withdraw:
        return _report(args)
    journal = _wallet(args).journal
    listed = [journal.get(args.hire)] if args.hire else journal.all()
    if args.json:
        say_json([hire_json(entry) for entry in listed])
        return 0
    for entry in listed:
        paid = f"{entry.satoshis:,} satoshis of {entry.currency}" if entry.claims else "nothing paid"
        say(f"{entry.id}  {entry.state.value:<12}  {on_one_line(entry.agent)}: {paid}")
        if args.hire:
            for title, text in _details(entry):
                say(f"  {title:<8}{on_one_line(text)}")
    return 0


def _report(args: Namespace) -> int:
    """Rate a hire, complain of it, or take the complaint back."""
    import asyncio

    from overlay.answers.record import as_json
    from overlay.client import AsyncOverlayClient
    from overlay.client.hire import outcome

    if args.hire is None or sum((args.rate, bool(args.complain), args.withdraw)) != 1:
        raise UsageError("name a hire, and one of --rate, --complain and --withdraw")
    held = _wallet(args)
    entry = held.journal.get(args.hire)

    async def report() -> Any:
        async with AsyncOverlayClient(entry.url) as client:
            if args.rate:
                return await outcome.rate(entry, held, client, args.node)
            return await outcome.complain(entry, held, client, args.complain or WITHDRAWN, args.node)

    accepted = asyncio.run(report())
    if args.json:
        say_json(as_json(accepted))
    else:
        say(f"accepted by {entry.url}: {accepted.new or 'nothing'} new")
    return 0


def _details(entry: Hire) -> list[tuple[str, str]]:
    transactions = ", ".join(tx.hex_id for tx in entry.transactions)
    rows = [
        ("need", entry.need), ("listing", entry.listing), ("called", entry.endpoint), ("paid by", transactions),
        ("task", entry.task), ("receipt", _receipt_words(entry)), ("detail", entry.detail),
        *(("file", file) for file in entry.files),
    ]  # fmt: skip
    return [(title, text) for title, text in rows if text]


def _receipt_words(entry: Hire) -> str:
    if not entry.receipt:
        return "none" if entry.files else ""
    return f"does not hold: {entry.receipt_fault}" if entry.receipt_fault else "signed by the key of the card"


def hire_json(entry: Hire) -> dict[str, Any]:
    """A hire as JSON, without its input and signed claims."""
    return {
        "id": entry.id, "state": entry.state.value, "need": entry.need, "listing": entry.listing, "agent": entry.agent,
        "endpoint": entry.endpoint, "cardSha256": entry.card_sha256, "currency": entry.currency or None,
        "satoshis": entry.satoshis, "fee": entry.fee, "txids": [tx.hex_id for tx in entry.transactions],
        "task": entry.task,
        "receipt": entry.receipt or None, "receiptFault": entry.receipt_fault or None,
        "agentTask": entry.agent_task or None, "files": list(entry.files), "detail": entry.detail or None,
    }  # fmt: skip


def wallet(args: Namespace) -> int:
    """Print a wallet, after making it or adding coins to it."""
    from overlay.client.hire.wallet import new_wallet

    held, added = _wallet(args), None
    if {bool(args.output), bool(args.beef)} != {args.what == "add"}:
        raise UsageError("to add a coin: a2b wallet add TXID_OUTPUT --beef FILE")
    if args.what == "new":
        held = new_wallet(held.folder, args.network)
        if not args.json:
            say(f"made {held.folder}: keep a copy of key.txt, and few coins: whoever reads the folder can spend them")
    elif args.what is not None:
        added = len(held.add_coins([_coin(args, held)] if args.what == "add" else _unspent(args, held)))
    coins = held.coins() if held.coins_path().exists() else []
    answer = {
        "folder": str(held.folder), "address": held.address(), "network": held.key.network,
        "satoshis": sum(coin.satoshis for coin in coins), "coins": len(coins),
        **({} if added is None else {"added": added}),
    }  # fmt: skip
    if args.json:
        say_json(answer)
        return 0
    for title, text in answer.items():
        say(f"{title:<9}{text:,}" if isinstance(text, int) else f"{title:<9}{text}")
    if added is None and sys.stdout.isatty():
        import segno

        segno.make_qr(held.address()).terminal(compact=True, border=2)
    return 0


def _coin(args: Namespace, held: Wallet) -> Coin:
    """The coin of an output in a BEEF."""
    from overlay.client.hire.wallet import MAX_BEEF_BYTES
    from parsers.bitcoin.tx import Outpoint

    try:
        outpoint = Outpoint.parse(args.output)
    except ValueError as error:
        raise UsageError(str(error)) from None
    with args.beef.open("rb") as opened:
        data = opened.read(2 * MAX_BEEF_BYTES + 2)
    with suppress(ValueError):  # no hex: a BEEF in bytes begins with none
        data = bytes.fromhex(data.decode("ascii"))
    if len(data) > MAX_BEEF_BYTES:
        raise UsageError(f"{args.beef} has more than {MAX_BEEF_BYTES:,} bytes of BEEF")
    return held.coin_in(data, outpoint)


def _unspent(args: Namespace, held: Wallet) -> list[Coin]:
    """The coins of the wallet's address that a node has, or the service that `A2B_COINS` names."""
    import asyncio

    from overlay.client.hire.whatsonchain import SERVICE, VARIABLE, WhatsOnChainCoins
    from overlay.publish.coins import from_file, from_node

    if args.node:
        return asyncio.run(from_node(args.node, held.address()))
    url = os.environ.get(VARIABLE, "").removeprefix(SERVICE)
    if not url.startswith(("https://", "http://")) or not os.environ[VARIABLE].startswith(SERVICE):
        raise UsageError(f"name --node URL, or set {VARIABLE}={SERVICE}URL, a service that then sees {held.address()}")
    file = held.coins_path()
    excluded = {coin.outpoint for coin in (from_file(file) if file.exists() else [])} | held.claimed
    return asyncio.run(WhatsOnChainCoins(url).new_coins(held.address(), excluded))


def _wallet(args: Namespace) -> Wallet:
    from overlay.client.hire.wallet import wallet_at

    return wallet_at(args.wallet, args.key_file, args.coins)
