"""The packaged sample blocks get into no database of other chains, and other chains not into theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indexer.masking import masked
from indexer.settings import Settings, SettingsError
from indexer.sync.packaged_chain import is_packaged

if TYPE_CHECKING:
    from indexer.store import Store


def check_chains(settings: Settings, store: Store) -> None:
    """Raise SettingsError where the packaged chain would be followed in a database that holds another chain, and where
    chains are configured, and the database holds the packaged one under a name that is not among them."""
    stored, configured = store.chains(), settings.sources()
    packaged = {name for name in stored if is_packaged(store, name)}
    name, holder = next(iter(configured), ""), f"{masked(settings.database)} holds the"
    # of a chain that was only named, as by a first start that was stopped at once, no header is stored
    other = [n for n in stored if n not in packaged and (n != name or store.headers.run(n, 1, 1))]
    if settings.sample and other:
        raise SettingsError(
            f"{holder} chain {other[0]!a} ({stored[other[0]]}), and no chains are configured: set A2B_CHAINS to follow "
            "it, or name another folder for the packaged sample blocks (--data, A2B_DATA)"
        )
    if configured and (strange := sorted(packaged - configured.keys())):
        raise SettingsError(
            f"{holder} packaged sample blocks, as chain {strange[0]!a}: remove them (a2b forget {strange[0]}), or name "
            "another folder (--data, A2B_DATA)"
        )
