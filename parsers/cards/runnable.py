"""Whether a listing can be used as it is: by a command, or at a URL that leads others there, too."""

from __future__ import annotations

from parsers.local_hosts import is_public_url


def is_runnable(command: str, url: str) -> bool:
    """Whether there is a command, or a URL of a host that is not on the reader's own machine or network. Nothing is
    looked up: the host may be gone."""
    return bool(command) or is_public_url(url)
