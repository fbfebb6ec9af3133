"""Where a follower stands."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

PARTIAL = (
    "a subscription delivers only what matches, and moves are found by asking: whether anything is missing cannot be "
    "known, so there is no state hash"
)
"""What is to be known of a chain of which blocks were read from excerpts."""

LATE = (
    "reading began above the height at which A2B can begin here: a registration made before is known once a card is "
    "inscribed on it again, so there is no state hash; a new database without `from` reads all"
)
"""What is to be known of a chain of which the first blocks were not read."""


@dataclass(slots=True)
class Progress:
    """Where a follower stands, for status, logs and progress bars. `state` is starting, catching-up, following,
    unreachable or stopped; `blocks` and `bytes` count what was read since the start, `said` what stood in it, by kind
    of event; `mempool` is the number of transactions in the source's mempool, None where it does not tell; `checked`
    says which rules of headers were checked, empty until the source is open. `note` says what a source warns of; of one
    that tells only part of each block, what that means, and `caught` counts the answers that cannot be true and were
    refused."""

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
    said: Counter[str] = field(default_factory=Counter)
    reorgs: int = 0
    refused: int = 0
    error: str = ""
    checked: str = ""
    note: str = ""
    caught: int = 0
