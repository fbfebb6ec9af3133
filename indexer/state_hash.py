"""The state hash (law 18): what two indexers compare to see that they read the same chain the same way."""

from __future__ import annotations

from collections.abc import Iterable

from indexer.headers.networks import is_complete_from
from indexer.model import OUTDATED, RULES, BlockRef, RegistrationState
from indexer.store import Store, Writer, state_hashes
from indexer.store.state_hashes import StateHash, line
from indexer.store.state_hashes import digest as digest_of_lines


def digest(states: Iterable[RegistrationState]) -> str:
    """SHA-256 (hex) over the lines of `states`, which come sorted by id as bytes."""
    return digest_of_lines(map(line, states))


def starts_late(store: Store, chain: str) -> bool:
    """Whether the stored blocks of a chain begin above the height at which its first registration may be: earlier
    registrations are missing."""
    caip2, start = store.chains().get(chain), store.blocks.lowest_height(chain)
    return caip2 is not None and start is not None and not is_complete_from(caip2, start)


def outdated(store: Store, chain: str) -> str:
    """The note on a chain that was stored by other rules than this program's, "" for any other."""
    rules = store.rules(chain)
    if rules == RULES or store.blocks.lowest_height(chain) is None:
        return ""
    return OUTDATED.format(rules=rules, current=RULES, chain=chain)


def is_whole(store: Store, chain: str) -> bool:
    """Whether all transactions of a chain were read, from the beginning, by the rules of this program."""
    return not (store.is_partial(chain) or starts_late(store, chain) or outdated(store, chain))


def hashed_block(store: Store, chain: str) -> BlockRef | None:
    """The block of the newest state hash of a chain: the newest stored one; for a chain that is read twice, the newest
    one up to which all blocks were, None before the first."""
    twice = store.read_twice(chain)
    return store.blocks.newest(chain) if twice is None else store.blocks.below(chain, twice + 1)


def is_defined(store: Store, chain: str, height: int) -> bool:
    """Whether the state hash of a chain at a height can be known: no update up to it is undecided (law 3), and the
    chain is whole."""
    return is_whole(store, chain) and not store.history.undecided(chain, up_to=height, limit=1)


def state_hash(store: Store, chain: str, height: int) -> str | None:
    """The state hash of a chain after the block at `height`, computed from all registrations; None where it is not
    defined."""
    return digest(store.registrations.states(chain, height)) if is_defined(store, chain, height) else None


def computed_state_hash(store: Store, chain: str, height: int) -> StateHash:
    """The state hash after the block at `height` with that of its pointers, computed from all that is stored."""
    text = state_hash(store, chain, height)
    return StateHash(height, text, store.state_hashes.pointers(chain, height) if text is not None else None)


def stored_state_hash(store: Store, chain: str) -> StateHash | None:
    """The newest stored state hash of a chain; its digest is None where that of `hashed_block` is not defined. None
    without any."""
    newest, hashed = store.blocks.newest(chain), hashed_block(store, chain)
    if newest is None:
        return None
    if hashed is None or not is_defined(store, chain, hashed.height):
        return StateHash((hashed or newest).height, None)
    return store.state_hashes.newest(chain)


def update_state_hash(store: Store, writer: Writer, chain: str) -> StateHash | None:
    """Store the state hash after `hashed_block` where it is defined; return as `stored_state_hash`."""
    hashed = hashed_block(store, chain)
    if hashed is not None and is_defined(store, chain, hashed.height):
        state_hashes.update(writer, chain)
    return stored_state_hash(store, chain)
