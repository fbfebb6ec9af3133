"""Whether a listing can be used as it is: by a command, or at a URL that leads others there, too."""

from __future__ import annotations

from contextlib import suppress
from ipaddress import ip_address
from urllib.parse import urlsplit

from parsers.local_hosts import is_private_url
from parsers.pointers.locator import url_host


def is_runnable(command: str, url: str) -> bool:
    """Whether there is a command, or a URL (http or https) of a host that is not on the reader's own machine or
    network. Nothing is looked up: the host may be gone."""
    return bool(command) or (_has_host(url) and not is_private_url(url))


def _has_host(url: str) -> bool:
    if url_host(url):
        return True
    with suppress(ValueError):
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(ip_address(parts.hostname or ""))
    return False
