"""Opting out: the rules of a host's robots.txt for this program's product token (RFC 9309), and only for it. Pure.

Groups for `*` address crawlers, which discover URLs; the URLs fetched here were published on a chain, one by one. As
anyone can publish the URL of any host, its owner can end the fetches with `User-agent: a2b-registry` and `Disallow: /`.
"""

from __future__ import annotations

from typing import NamedTuple

from indexer.fetcher.limits import PRODUCT

MAX_RULES = 200
MAX_PATTERN = 500


class RobotsRules(NamedTuple):
    """Path patterns, each with whether it allows; empty where no group names this program."""

    patterns: tuple[tuple[str, bool], ...] = ()

    def allow(self, path: str) -> bool:
        """Whether a path (with query) may be fetched: the longest pattern decides; of equals, the one that allows."""
        fits = [(len(pattern), allows) for pattern, allows in self.patterns if _fits(pattern, path)]
        return max(fits)[1] if fits else True


def read(body: bytes) -> RobotsRules:
    """The rules of the groups that name this program. Never raises: other lines are ignored."""
    rules: list[tuple[str, bool]] = []
    ours, in_agents = False, False
    for line in body.decode("utf-8", "replace").splitlines():
        key, colon, value = line.partition("#")[0].partition(":")
        key, value = key.strip().lower(), value.strip()
        if not colon:
            continue
        if key == "user-agent":
            ours = (ours and in_agents) or value.lower() == PRODUCT
            in_agents = True
        elif key in ("allow", "disallow"):
            in_agents = False
            if ours and value and len(rules) < MAX_RULES:
                rules.append((value[:MAX_PATTERN], key == "allow"))
    return RobotsRules(tuple(rules))


def _fits(pattern: str, path: str) -> bool:
    """Whether a pattern matches the beginning of a path: `*` is any bytes, `$` at its end is the end."""
    whole = pattern.endswith("$")
    first, *rest = pattern.removesuffix("$").split("*")
    if not path.startswith(first):
        return False
    index = len(first)
    last = rest.pop() if rest and whole else None
    for part in rest:
        index = path.find(part, index)
        if index < 0:
            return False
        index += len(part)
    if last is not None:
        return len(path) - len(last) >= index and path.endswith(last)
    return not whole or index == len(path)
