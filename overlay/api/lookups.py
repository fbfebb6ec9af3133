"""Look-ups: a text that is nothing but an id, a txid, an outpoint, an owner's address, a host or URL, or a package is
looked up before its words are searched for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote

from overlay.api import values
from overlay.listings.ids import parse_id
from overlay.search.facts import id_fact, outpoint_fact, package_fact, transaction_fact
from overlay.search.query import Lookup
from parsers.bitcoin.tx import Outpoint
from parsers.cards.command_packages import installed
from parsers.pointers.locator import url_host

LONGEST = 2_048
"""Characters of a text that is looked up."""

_TRANSACTION = re.compile(
    r"(?<![0-9A-Za-z])(?:0x)?([0-9a-f]{64})(?:[_.:i]([0-9]{1,10}))?(?![0-9A-Za-z])", re.IGNORECASE
)
_OWNER = re.compile(r"[1-9A-HJ-NP-Za-km-z]{25,44}|[a-z]{2,5}1[0-9a-z]{25,87}|0[xX][0-9a-fA-F]{40}")
_PACKAGE_PAGE = re.compile(
    r"(?:npmjs\.com/package|pypi\.org/project|nuget\.org/packages|hub\.docker\.com/_)/((?:(?:@|%40)[^/?#]+/)?[^/?#]+)"
    r"|hub\.docker\.com/r/([^/?#]+/[^/?#]+)"
)
_PACKAGE = re.compile(
    r"(?:pkg:)?(?:npm|pypi|docker|oci|nuget)[:/](?P<of>\S+)|@[\w.~-]+/[\w.~-]+(?:@\S+)?"
    r"|[\w.-]+(?:@|==)(?:v?[0-9]\S*|latest)",
    re.IGNORECASE,
)
_IMAGE = re.compile(r"[a-z0-9._-]+(?::[0-9]+)?(?:/[a-z0-9._-]+)+(?:[:@]\S+)?", re.IGNORECASE)
_NAME = re.compile(r"[a-z0-9]+(?:[-_.]+[a-z0-9]+)+", re.IGNORECASE)


def lookups(text: str) -> tuple[Lookup, ...]:
    """The names that a text may be, the most exact first; none for most texts."""
    words = text.split()
    if not words or len(text) > LONGEST or not (words[0][0].isalnum() or words[0][0] == "@"):  # as after an operator
        return ()
    if len(words) == 1:
        return tuple(_of_word(words[0]))
    run = installed(words[0], words[1:])
    return (_package(run.name),) if run else ()


def _of_word(word: str) -> Iterator[Lookup]:
    if len(word) > 64 or any(mark in word for mark in ".:/#_"):
        registration, key = parse_id(word)
        if registration:
            yield Lookup("id", (id_fact(registration if key is None else f"{registration}#{key}"),))
    if named := _TRANSACTION.search(word):
        txid, vout = named.groups()
        if vout is not None and int(vout) <= 0xFFFFFFFF:
            yield Lookup("outpoint", (outpoint_fact(Outpoint.parse(f"{txid}_{vout}")),))
        elif vout is None:
            yield Lookup("transaction", (transaction_fact(bytes.fromhex(txid)[::-1]),))
    if _OWNER.fullmatch(word):
        yield Lookup("owner address", (f"owner:{values.owner(word)}",))
    if page := _PACKAGE_PAGE.search(word):
        yield _package(unquote(page[1] or page[2]))
    elif package := _PACKAGE.fullmatch(word):
        yield _package(unquote(package["of"] or word))
    elif _IMAGE.fullmatch(word):
        yield _package(word)
    if host := url_host(f"https://{word.rpartition('://')[2]}"):
        yield Lookup("host", (f"domain:{host}",), host)
    if _NAME.fullmatch(word):
        yield _package(word)._replace(leads=True)


def _package(name: str) -> Lookup:
    return Lookup("package", (package_fact(name),))
