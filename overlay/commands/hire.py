"""`a2b hire`: from a need to a paid result, with a wallet of one's own."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overlay.commands.hires import hire_json, receipt_words
from overlay.commands.options import URL, UsageError, add_json, add_url, command
from overlay.commands.wallets import add_wallet_options, wallet_of
from overlay.text.safe_text import on_one_line
from overlay.text.terminal import complain, say, say_json

if TYPE_CHECKING:
    from overlay.client.hire.call_price import RateOf
    from overlay.client.hire.hire_candidates import HireCandidate
    from overlay.client.hire.hiring import HireRequest, HireTerms, Hiring
    from overlay.client.hire.journal import Hire
    from overlay.client.hire.wallet import Wallet
    from overlay.commands.options import Commands

RATES = "A2B_RATES"
"""The variable that names feeds of exchange rates."""

MAX_INPUT = 16 << 20
"""Bytes of an input."""


def add(commands: Commands) -> None:
    """Add `a2b hire`."""
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
    parser.add_argument("--rate", action="store_true", help="publish a rating at the end [asked on a terminal]")
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
    parser.add_argument(
        "--node", metavar="URL", help="a node that sends it, or proves the payment, http://user:password@host:port"
    )
    parser.add_argument("--arc", metavar="URL", help="an ARC that sends it")
    add_wallet_options(parser)
    add_json(parser)


def hire(args: Namespace) -> int:
    """Hire, or go on with a hire, and print the answer."""
    import asyncio

    done = asyncio.run(_hire(args) if args.cancel is None else _cancel(args))
    if args.json:
        report = asyncio.run(_report(args, done)) if args.rate else {}
        say_json(hire_json(done) | report)
        return 0
    for file in done.files:
        say(f"stored {file}")
    _say_short_answer(done)
    if done.files and done.claims:
        say(f"receipt: {receipt_words(done)}")
        args.rate |= bool(done.receipt) and not (done.receipt_fault or args.yes) and _typed(RATE).lower() in YES
        for title, text in asyncio.run(_report(args, done)).items():
            say(f"{title}: {text}")
    return 0


YES = ("y", "yes")
RATE = "Publish a rating: which address paid it, when and how much (y or n)? "


async def _report(args: Namespace, done: Hire) -> dict[str, str]:
    """The state of the payment, and of the rating where it is wanted; neither changes what the hire answered."""
    from indexer.errors import SourceError
    from overlay.client import AsyncOverlayClient, ClientError
    from overlay.client.hire import outcome
    from parsers.claims.canonical_json import DocumentError

    report, later = {}, f"; later: a2b hires {done.id} --rate"
    async with AsyncOverlayClient(done.url) as client:
        try:
            is_sent = await outcome.is_sent(done, client, args.node)
            report["payment"] = ("seen" if is_sent else "not seen") + (" by your node" if args.node else " in a block")
        except (SourceError, ClientError) as error:
            report["payment"] = f"not checked: {error}"
        if args.rate:
            try:
                await outcome.rate(done, wallet_of(args), client, args.node)
                report["rating"] = f"accepted by {done.url}"
            except (SourceError, ClientError, DocumentError) as error:
                report["rating"] = f"not sent: {error}{later}"
    return report


async def _cancel(args: Namespace) -> Hire:
    """Take a hire back."""
    from overlay.client.hire.cancelling import cancel
    from overlay.publish.broadcast import to_arc, to_node
    from overlay.publish.transactions import Draft

    held = wallet_of(args)

    async def send(draft: Draft) -> None:
        if bool(args.node) == bool(args.arc):
            raise UsageError("its coins are spent again: name --node URL or --arc URL that sends the transaction")
        await (to_node(args.node, draft.raw) if args.node else to_arc(args.arc, draft.extended, draft.tx.hex_id))

    return await cancel(held.journal.get(args.cancel), held, send)


async def _hire(args: Namespace) -> Hire:
    from overlay.client import AsyncOverlayClient
    from overlay.client.hire.hiring import HireError

    held = wallet_of(args)
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
        try:
            return await (hiring.hire(_request(args)) if resumed is None else hiring.proceed(resumed))
        except HireError:
            _say_what_to_do(held, resumed)
            raise


def _say_what_to_do(held: Wallet, resumed: Hire | None) -> None:
    """Name the commands for a hire that has failed after a claim was signed."""
    from overlay.client.hire.journal import HireState

    newest = held.journal.get(resumed.id) if resumed else next(iter(held.journal.all()), None)
    if newest is not None and newest.claims and newest.state in (HireState.FAILED, HireState.REFUSED):
        complain(
            f"`a2b hire --cancel {newest.id}` takes back coins that were not sent; where they were, "
            f"`a2b hires {newest.id} --complain nothing-delivered` tells others, six blocks later"
        )


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
    return _typed("Go on (y or n)? ").lower() in YES


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
