"""Where a follower stands."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Progress:
    """Where a follower stands, for status, logs and progress bars. `state` is starting, catching-up, following,
    unreachable or stopped; `blocks` and `bytes` count what was read since the start; `mempool` is the number of
    transactions in the source's mempool, None where it does not tell."""

    name: str
    caip2: str = ""
    state: str = "starting"
    height: int | None = None
    hash: bytes = b""
    tip: int | None = None
    mempool: int | None = None
    blocks: int = 0
    bytes: int = 0
    events: int = 0
    reorgs: int = 0
    refused: int = 0
    error: str = ""
