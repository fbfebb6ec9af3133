"""`a2b show` and `a2b history`: one listing, and its revisions."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

from indexer.settings import Settings
from overlay.commands.options import add_json, add_url, ask, command, print_answer, settings_of
from overlay.text.interval_words import in_words, per
from overlay.text.rating_words import rating_words
from overlay.text.safe_text import on_one_line
from overlay.text.severity_words import severity_words
from overlay.text.terminal import say
from parsers.cards.intervals import interval_key

if TYPE_CHECKING:
    from overlay.answers.observed_tools import ListedTools
    from overlay.answers.record import Record
    from overlay.answers.usage_snippets import UsageSnippets
    from overlay.commands.options import Commands
    from overlay.listings.repository import ListingRepository


def add(commands: Commands) -> None:
    """Add the commands about one listing."""
    for name, run, purpose in (
        ("show", show, "Show one listing. Exit code 1 when there is none."),
        ("history", history, "Show every revision of a listing, newest first. Exit code 1 when there is none."),
    ):
        parser = command(commands, name, run, purpose, "data", "database")
        parser.add_argument(
            "id", metavar="ID", help="<txid>_<output>, a domain or a URL; with #<server> for one of several of a tool"
        )
        if name == "show":
            parser.add_argument(
                "--snippets", action="store_true", help="print how to use it: settings of MCP clients, or a call"
            )
            parser.add_argument(
                "--tools", action="store_true", help="print the tools that its URL lists, as a visit observed them"
            )
        add_url(parser)
        add_json(parser)


def show(args: Namespace) -> int:
    """Print one listing, how to use it, or its tools."""
    if args.tools:
        return _show_tools(args)
    if args.snippets:
        return _show_snippets(args)
    answer = ask(args.url, lambda calls: calls.get(args.id)) if args.url else _listing(settings_of(args), args.id)
    print_answer(args, answer, _show)
    return 0


def _show_snippets(args: Namespace) -> int:
    """Print texts to copy. Exit code 1 where there are none."""
    answer = _of_listing(args, lambda calls: calls.snippets(args.id), _usage)
    print_answer(args, answer, _print_snippets)
    return 0 if answer["snippets"] else 1


def _show_tools(args: Namespace) -> int:
    """Print the tools that a URL lists."""
    print_answer(args, _of_listing(args, lambda calls: calls.tools(args.id), _tools), _print_tools)
    return 0


def _of_listing(args: Namespace, call: Callable[[Any], Any], read: Callable[[ListingRepository, str], Record]) -> Any:
    """The answer of an overlay to a `call`, or what is read of the listing in the data of the command."""
    if args.url:
        return ask(args.url, call)
    from overlay.answers.record import as_json
    from overlay.app.storage import open_store
    from overlay.listings.repository import ListingRepository

    with closing(open_store(settings_of(args), create=False)) as store:
        return as_json(read(ListingRepository(store), args.id))


def _tools(repository: ListingRepository, id_: str) -> ListedTools:
    from overlay.listings.tool_list import tool_list

    return tool_list(repository, id_)


def _print_tools(answer: Mapping[str, Any]) -> None:
    observed = answer["observed"]
    say(f"{observed['count']:,} tools since {observed['at']}  {observed['sha256']}")
    for kind, names in answer["changes"].items():
        for name in names:
            say(f"  {kind:<10}{on_one_line(name)}")
    for tool in answer["tools"]:
        say(f"  {'tool':<10}{on_one_line(tool['name'])}: {on_one_line(tool.get('description', ''))}")


def _usage(repository: ListingRepository, id_: str) -> UsageSnippets:
    from overlay.listings.lookup import single_listing
    from overlay.listings.snippets import usage

    return usage(single_listing(repository, id_))


def _print_snippets(answer: Mapping[str, Any]) -> None:
    if not answer["snippets"]:
        say(answer["why"])
    for snippet in answer["snippets"]:
        say(f"== {snippet['title']}" + (f", in {snippet['file']}" if snippet["file"] else ""))
        for line in snippet["text"].splitlines():
            say(line)


def history(args: Namespace) -> int:
    """Print its revisions."""
    answer = ask(args.url, lambda calls: calls.history(args.id)) if args.url else _revisions(settings_of(args), args.id)
    print_answer(args, answer, _show_history)
    return 0


def _show_history(answer: Mapping[str, Any]) -> None:
    for drift in answer.get("drifts", ()):
        say(f"{on_one_line(drift['since'])}  drifted  served {drift['cardSha256']} instead of the card")
    for revision in answer["revisions"]:
        for line in (*_revision(revision), *(f"    {line}" for line in _changes(revision))):
            say(line)


def _changes(revision: Mapping[str, Any]) -> Iterator[str]:
    """A line for each value that a revision changes."""
    for change in revision.get("changes", ()):
        before, after = (on_one_line(in_words(change[name] or "none")) for name in ("from", "to"))
        yield f"{change['what']}: {before} -> {after}"


def _listing(settings: Settings, id_: str) -> dict[str, Any]:
    from overlay.app.storage import open_store, stored_heights
    from overlay.duplicates.duplicate_status import listing_with_duplicates
    from overlay.listings.recent_changes import aged
    from overlay.listings.repository import ListingRepository

    with closing(open_store(settings, create=False)) as store:
        item = listing_with_duplicates(ListingRepository(store), partial(_indexed, settings), id_)
        return aged(item, stored_heights(settings), settings.change_blocks)


def _indexed(settings: Settings, id_: str) -> bytes | None:
    """A listing's item as the index holds it, None without one."""
    from overlay.app.compilation import prepare_search
    from overlay.app.storage import MissingError, open_index

    try:
        engine = open_index(settings, create=False)
    except MissingError:
        return None
    with closing(engine):
        prepare_search(engine.position())
        return engine.get(id_)


def _revisions(settings: Settings, id_: str) -> dict[str, Any]:
    from overlay.app.storage import open_store
    from overlay.listings.lookup import history
    from overlay.listings.repository import ListingRepository

    with closing(open_store(settings, create=False)) as store:
        return history(ListingRepository(store), id_)


def _notice(notice: Mapping[str, Any]) -> str:
    """When a listing was deprecated, its successor and the message, as far as there are any."""
    words = f" since {notice['since']}" if notice["since"] else ""
    if successor := notice.get("successor"):
        words += f", use {on_one_line(successor)} instead"
    return f"{words}: {on_one_line(message)}" if (message := notice.get("message")) else words


_ROWS = (
    ("status", "status"), ("version", "version"), ("url", "url"), ("chain", "caip2"), ("owner", "owner"),
    ("outpoint", "outpoint"), ("created", "createdHeight"), ("updated", "updatedHeight"), ("at", "timestamp"),
    ("card", "cardSha256"), ("integrity", "integrity"), ("fetched", "fetchedFrom"), ("signer", "signer"),
    ("logo", "logo"),
)  # fmt: skip


def _show(item: Mapping[str, Any]) -> None:
    say(f"{on_one_line(item.get('name', item['id']))}  ({item['type']})")
    if item.get("description"):
        say(f"  {on_one_line(item['description'])}")
    say(f"  {'id':<10}{item['id']}")
    for title, name in _ROWS:
        if item.get(name) not in (None, ""):
            say(f"  {title:<10}{on_one_line(item[name])}")
    for title, line in trust_rows(item):
        say(f"  {title:<10}{on_one_line(line)}")
    if tools := item.get("observedTools"):
        say(f"  {'tools':<10}{tools['count']:,} observed, since {tools['at']} (--tools)")
    if sale := item.get("sale"):
        payee = f" to {on_one_line(sale['payTo'])}" if sale["payTo"] else ""
        say(f"  {'for sale':<10}{sale['satoshis']:,} satoshis{payee}, bought by a wallet")
    if notice := item.get("deprecated"):
        say(f"  deprecated by its owner{_notice(notice)}")
    if pending := item.get("pending"):
        kind = "a transfer" if any(change["what"] == "owner" for change in pending["changes"]) else "an update"
        say(f"  {'pending':<10}{pending['outpoint'] or 'burned'}: {kind} waits to be mined; look before you pay")
        say(f"  {'':<10}{on_one_line(in_words(pending['summary']))}")
        for line in _changes(pending):
            say(f"  {'':<10}{line}")
    for server in item.get("servers", ()):
        say(f"  {'server':<10}{server}")
    if item.get("command"):
        command_line = on_one_line(" ".join([item["command"], *item.get("args", ())]))
        say(f"  {'command':<10}{command_line}  (written by the publisher: read it first)")
    for skill in item.get("skills", ()):
        say(f"  {'skill':<10}{on_one_line(skill['id'])}: {on_one_line(skill['name'])}")
    for offer in item.get("offers", ()):
        say(f"  {'offer':<10}{offer_line(offer)}")
    for warning in item.get("warnings", ()):
        say(f"  {'warning':<10}{located(warning)}")


def trust_rows(item: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Rows that confirm a listing and its card: the domain, the work that was paid for, and the anchors on chain."""
    if domain := item.get("domain"):
        when = f", checked at {domain['checkedAt']}" if domain["checkedAt"] else ""
        yield "domain", f"{domain['host']} ({'verified' if domain['verified'] else 'not verified'}{when})"
        if failure := domain.get("lastFailure"):
            yield "failed", f"a check at {failure['at']}: {failure['reason']}"
    if rating := item.get("rating"):
        yield "rating", rating_words(rating)
    if identity := item.get("motebit"):
        reason = f": {identity['reason']}" if identity.get("reason") else ""
        stated = "verified: its host serves it" if identity.get("verified") else f"not verified{reason}"
        yield "identity", f"{on_one_line(identity['id'])} ({stated})"
    if drift := item.get("drift"):
        yield "drifted", f"serves {drift['cardSha256']} since {drift['since']}"
    shown = item.get("anchors", ())
    for anchor in shown:
        named = anchor["hash"] or "no hash"
        met = "met" if anchor["met"] else "not met"
        block = "unconfirmed" if anchor["height"] is None else f"block {anchor['height']:,}"
        yield "anchor", f"{anchor['chain']} {block} {anchor['txid']}: {named}, {met}"
    if (more := item.get("anchorCount", 0) - len(shown)) > 0:
        yield "anchor", f"and {more:,} more"


def located(reason: Mapping[str, Any]) -> str:
    """The text of an error or a warning, after its severity and the JSON pointer to its subject; without a pointer it
    is about the whole card."""
    grade = f"{words} " if (words := severity_words(reason)) else ""
    pointer = f"{on_one_line(reason['pointer'])}: " if reason["pointer"] else ""
    return f"{grade}{pointer}{on_one_line(in_words(reason['detail']))}"


def offer_line(offer: Mapping[str, Any]) -> str:
    others = [currency for currency in offer["acceptedCurrencies"] if currency != offer["currency"]]
    accepted = f", also takes {on_one_line(', '.join(others))}" if others else ""
    skills = f", for {on_one_line(', '.join(offer['skillIds']))}" if offer["skillIds"] else ""
    price = f"{offer['amount']} {on_one_line(offer['currency'])} {on_one_line(per(interval_key(offer['interval'])))}"
    address = f", paid to {on_one_line(offer['address'])}" if offer.get("address") else ""
    return f"{on_one_line(offer['id'])}: {price}{accepted}{skills}{address}"


def _revision(revision: Mapping[str, Any]) -> list[str]:
    height = "unconfirmed" if revision["height"] is None else f"block {revision['height']:,}"
    first = f"{height}  {revision['kind']}  {revision['outpoint'] or revision['txid']}"
    lines = [first if revision["valid"] else f"{first}  (does not count)"]
    if revision["reasons"]:
        lines.append(f"    {on_one_line(revision['reasons'][0]['detail'])}")
    if revision["owner"]:
        lines.append(f"    owner {on_one_line(revision['owner'])}")
    return lines
