"""Where exchange rates come from: `BASE=URL`, `BASE=SERVICE:` or `BASE=file:PATH`, as the operator writes it."""

from __future__ import annotations

import re
from hashlib import sha256
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

MOST_FEEDS = 16

ALONE = "!alone"
"""Suffix of the name of a feed by which payments may be counted without another feed that agrees."""

_WORD = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,63})=(https?|file|[a-z]+):(\S*)", re.IGNORECASE)
_KEY = re.compile(r"[0-9a-fA-F]{64}")


class RateFeed(NamedTuple):
    """A feed with `rates[T]` in units of T for one `base`. `url` is fetched unchanged, and may hold secrets; `key` is
    the Ed25519 public key (32 bytes in hex) that signs its body, empty for a feed that is not signed; `service` is the
    name of the public service (`SERVICES`) that answers, empty for others. `path` is that of a file, without a URL."""

    base: str
    url: str
    key: str
    service: str = ""
    path: str = ""

    @property
    def pays_alone(self) -> bool:
        """Whether payments may be counted by this feed alone: a file, a signed feed, or one on this machine."""
        return bool(self.path or self.key) or (not self.service and _is_of_machine(self.url))

    @property
    def name(self) -> str:
        """The name of the feed in the store: another URL, or another key, is another feed."""
        digest = sha256(f"{self.url}#{self.key}{self.path}".encode()).hexdigest()[:24]
        return f"{self.base}:{digest}{ALONE if self.pays_alone else ''}"

    @property
    def source(self) -> str:
        """The public part of the URL: paths and queries hold access keys."""
        if self.path:
            return "file"
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"

    @property
    def shown(self) -> str:
        """The feed without its secrets."""
        if self.service or self.path:
            return f"{self.base}={self.service or 'file'}:***"
        return f"{self.base}={self.source}/***{'#' + self.key if self.key else ''}"


def rate_feeds(text: str) -> tuple[RateFeed, ...]:
    """The feeds that a setting names, the preferred first. Raises ValueError for other texts, without their secrets."""
    feeds = [_feed(word, number) for number, word in enumerate(text.split(), 1)]
    if len(feeds) > MOST_FEEDS:
        raise ValueError(f"holds {len(feeds)} feeds; at most {MOST_FEEDS} are fetched")
    if len(set(feeds)) < len(feeds):
        twice = next(feed for feed in feeds if feeds.count(feed) > 1)
        raise ValueError(f"holds {twice.shown} twice")
    return tuple(feeds)


def _feed(word: str, number: int) -> RateFeed:
    match = _WORD.fullmatch(word)
    if match is None:
        raise ValueError(f"its word number {number} is not a feed: {_how()}")
    base, scheme, rest = match[1].upper(), match[2].lower(), match[3]
    if scheme == "file":
        path = rest.removeprefix("//")
        if not path.startswith("/"):
            raise ValueError(f"the feed number {number} ({base}) names no absolute path: {_how()}")
        return RateFeed(base, "", "", path=path)
    if scheme in ("http", "https"):
        url, _, key = f"{match[2]}:{rest}".partition("#")
        if key and not _KEY.fullmatch(key):
            raise ValueError(f"the feed number {number} ({base}) has a fragment that is not a key: {_how()}")
        _check_url(url, base, number)
        return RateFeed(base, url, key.lower())
    from indexer.rates.rate_services import SERVICES  # with msgspec, which a command's help does not need

    service = SERVICES.get(scheme)
    if service is None:
        raise ValueError(f"the feed number {number} ({base}) names an unknown service: {_how()}")
    if not service.quotes(base):
        has = f"it has {', '.join(sorted(service.bases))}" if service.bases else "it ended BSV in January 2024"
        raise ValueError(f"the feed number {number}: {scheme} has no rates of {base}; {has}")
    url = (rest.rstrip("/") or service.host) + service.path(base)
    _check_url(url, base, number)
    return RateFeed(base, url, "", scheme)


def _how() -> str:
    from indexer.rates.rate_services import SERVICES

    return (
        "write BASE=https://host/path, with #<64 hex digits of an Ed25519 key> where the feed is signed, "
        f"BASE=file:/path, or BASE=SERVICE: of {', '.join(SERVICES)}"
    )


def _check_url(url: str, base: str, number: int) -> None:
    try:
        parts = urlsplit(url)
        usable = parts.scheme.lower() in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ValueError(f"the URL of feed number {number} ({base}) has no host or no port that can be: {_how()}")


def _is_of_machine(url: str) -> bool:
    """Whether a URL names this machine by its address."""
    try:
        return ip_address(urlsplit(url).hostname or "").is_loopback
    except ValueError:
        return urlsplit(url).hostname == "localhost"
