"""Where exchange rates come from: `BASE=URL`, as the operator writes it. Plain standard library."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import NamedTuple
from urllib.parse import urlsplit

MOST_FEEDS = 16

_WORD = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,63})=(https?://\S+)", re.IGNORECASE)
_KEY = re.compile(r"[0-9a-fA-F]{64}")
_HOW = "write BASE=https://host/path, with #<64 hex digits of an Ed25519 key> where the feed is signed"


class RateFeed(NamedTuple):
    """A feed with `rates[T]` in units of T for one `base`. `url` is fetched unchanged, and may hold secrets; `key` is
    the Ed25519 public key (32 bytes in hex) that signs its body, empty for a feed that is not signed."""

    base: str
    url: str
    key: str

    @property
    def name(self) -> str:
        """The name of the feed in the store: another URL, or another key, is another feed."""
        return f"{self.base}:{sha256(f'{self.url}#{self.key}'.encode()).hexdigest()[:24]}"

    @property
    def source(self) -> str:
        """The public part of the URL: paths and queries hold access keys."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"

    @property
    def shown(self) -> str:
        """The feed without its secrets."""
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
        raise ValueError(f"its word number {number} is not a feed: {_HOW}")
    base, url = match[1].upper(), match[2]
    url, _, key = url.partition("#")
    if key and not _KEY.fullmatch(key):
        raise ValueError(f"the feed number {number} ({base}) has a fragment that is not a key: {_HOW}")
    try:
        parts = urlsplit(url)
        usable = bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ValueError(f"the URL of feed number {number} ({base}) has no host or no port that can be: {_HOW}")
    return RateFeed(base, url, key.lower())
