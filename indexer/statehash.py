"""The state hash (law 18): what two indexers compare to see that they read the same chain the same way."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from indexer.facts import State
from indexer.networks import is_complete_from
from indexer.store import Store


def line(state: State) -> str:
    """A registration as a line of the state: id, status, outpoint, owner, card and height, `-` for what it has not."""
    seat = str(state.outpoint) if state.outpoint else "-"
    owner = state.owner or "-"
    return f"{state.id}\t{state.status}\t{seat}\t{owner}\t{state.card.hex()}\t{state.updated_height}\n"


def digest(states: Iterable[State]) -> str:
    """SHA-256 (hex) over the lines of `states`, which come sorted by id as bytes."""
    sha = hashlib.sha256()
    for state in states:
        sha.update(line(state).encode())
    return sha.hexdigest()


def starts_late(store: Store, chain: str) -> bool:
    """Whether the stored blocks of a chain begin above the height at which its first registration may be: registrations
    made before are missing."""
    caip2, start = store.chains().get(chain), store.first(chain)
    return caip2 is not None and start is not None and not is_complete_from(caip2, start)


def state_hash(store: Store, chain: str, height: int) -> str | None:
    """The state hash of a chain after the block at `height`; None while an update up to it is undecided (law 3), and
    where it cannot be known whether anything is missing: blocks were read from excerpts, or not from the beginning."""
    if store.is_partial(chain) or starts_late(store, chain) or store.undecided(chain, upto=height, limit=1):
        return None
    return digest(store.states(chain, height))
