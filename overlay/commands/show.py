"""`a2b show` and `a2b history`: one listing, and how it came to be what it is."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from indexer.settings import Settings
from overlay.commands.options import add_json, add_url, command, settings
from overlay.commands.search import one
from overlay.terminal import say, say_json

if TYPE_CHECKING:
    from overlay.commands.options import Commands


def add(commands: Commands) -> None:
    """The commands about one listing."""
    for name, run, purpose in (
        ("show", show, "Show one listing. Exit code 1 when there is none."),
        ("history", history, "Show every revision of a listing, newest first. Exit code 1 when there is none."),
    ):
        parser = command(commands, name, run, purpose, "data", "database")
        parser.add_argument(
            "id", metavar="ID", help="<txid>_<output>, a domain or a URL; with #<server> for one of several of a tool"
        )
        add_url(parser)
        add_json(parser)


def show(asked: Namespace) -> int:
    """One item."""
    if asked.url:
        from overlay.remote import Remote

        found = Remote(asked.url).listing(asked.id)
    else:
        found = _listing(settings(asked), asked.id)
    if asked.json:
        say_json(found)
    else:
        _show(found)
    return 0


def history(asked: Namespace) -> int:
    """Its revisions."""
    if asked.url:
        from overlay.remote import Remote

        found = Remote(asked.url).history(asked.id)
    else:
        found = _revisions(settings(asked), asked.id)
    if asked.json:
        say_json(found)
        return 0
    for drift in found.get("drifts", ()):
        say(f"{one(drift['since'])}  drifted  served {drift['cardSha256']} instead of the card")
    for revision in found["revisions"]:
        for line in _revision(revision):
            say(line)
    return 0


def _listing(told: Settings, id_: str) -> dict[str, Any]:
    from overlay.aging import aged
    from overlay.api.listing_api import one as listing
    from overlay.catalogue import Catalogue
    from overlay.duplicates.status import with_indexed
    from overlay.services import heights, open_store

    store = open_store(told, make=False)
    try:
        found = aged(listing(Catalogue(store), id_), heights(told), told.change_blocks)
        return found if "servers" in found else with_indexed(found, _indexed(told, found["id"]))
    finally:
        store.engine.dispose()


def _indexed(told: Settings, id_: str) -> bytes | None:
    """A listing's item as the index holds it, None where there is none."""
    from overlay.services import MissingError, open_index

    try:
        engine = open_index(told, make=False)
    except MissingError:
        return None
    try:
        return engine.get(id_)
    finally:
        engine.close()


def _revisions(told: Settings, id_: str) -> dict[str, Any]:
    from overlay.api.listing_api import revisions
    from overlay.catalogue import Catalogue
    from overlay.services import open_store

    store = open_store(told, make=False)
    try:
        return revisions(Catalogue(store), id_)
    finally:
        store.engine.dispose()


_ROWS = (
    ("status", "status"), ("version", "version"), ("url", "url"), ("chain", "caip2"), ("owner", "owner"),
    ("outpoint", "outpoint"), ("created", "createdHeight"), ("updated", "updatedHeight"), ("at", "timestamp"),
    ("card", "cardSha256"), ("integrity", "integrity"), ("fetched", "fetchedFrom"), ("signer", "signer"),
    ("logo", "logo"),
)  # fmt: skip


def _show(item: Mapping[str, Any]) -> None:
    say(f"{one(item.get('name', item['id']))}  ({item['type']})")
    if item.get("description"):
        say(f"  {one(item['description'])}")
    say(f"  {'id':<10}{item['id']}")
    for title, name in _ROWS:
        if item.get(name) not in (None, ""):
            say(f"  {title:<10}{one(item[name])}")
    for title, line in _trust(item):
        say(f"  {title:<10}{one(line)}")
    if pending := item.get("pending"):
        say(f"  {'pending':<10}{pending['outpoint'] or 'no longer anywhere'}: {one(pending['summary'])}")
    for server in item.get("servers", ()):
        say(f"  {'server':<10}{server}")
    if item.get("command"):
        say(
            f"  {'command':<10}{one(' '.join([item['command'], *item.get('args', ())]))}  (a stranger's: read it first)"
        )
    for skill in item.get("skills", ()):
        say(f"  {'skill':<10}{one(skill['id'])}: {one(skill['name'])}")
    for offer in item.get("offers", ()):
        say(f"  {'offer':<10}{offer_line(offer)}")
    for warning in item.get("warnings", ()):
        say(f"  {'warning':<10}{one(warning['pointer'] or '/')}: {one(warning['detail'])}")


def _trust(item: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What speaks for a listing and its card besides the place where it is registered."""
    if domain := item.get("domain"):
        when = f", asked at {domain['checkedAt']}" if domain["checkedAt"] else ""
        yield "domain", f"{domain['host']} ({'verified' if domain['verified'] else 'not verified'}{when})"
    if drift := item.get("drift"):
        yield "drifted", f"serves {drift['cardSha256']} since {drift['since']}"
    shown = item.get("anchors", ())
    for anchor in shown:
        named = anchor["hash"] or "no hash"
        met = "met" if anchor["met"] else "not met"
        place = "unconfirmed" if anchor["height"] is None else f"block {anchor['height']:,}"
        yield "anchor", f"{anchor['chain']} {place} {anchor['txid']}: {named}, {met}"
    if (more := item.get("anchorCount", 0) - len(shown)) > 0:
        yield "anchor", f"and {more:,} more"


def offer_line(offer: Mapping[str, Any]) -> str:
    accepted = f", also takes {one(', '.join(offer['acceptedCurrencies']))}" if offer["acceptedCurrencies"] else ""
    skills = f", for {one(', '.join(offer['skillIds']))}" if offer["skillIds"] else ""
    per = one(offer["interval"]) if offer["interval"] else "call"
    return f"{one(offer['id'])}: {offer['amount']} {one(offer['currency'])} per {per}{accepted}{skills}"


def _revision(revision: Mapping[str, Any]) -> list[str]:
    height = "unconfirmed" if revision["height"] is None else f"block {revision['height']:,}"
    first = f"{height}  {revision['kind']}  {revision['outpoint'] or revision['txid']}"
    lines = [first if revision["valid"] else f"{first}  (does not count)"]
    if revision["reasons"]:
        lines.append(f"    {one(revision['reasons'][0]['detail'])}")
    if revision["owner"]:
        lines.append(f"    owner {one(revision['owner'])}")
    return lines
