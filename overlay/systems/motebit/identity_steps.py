"""The step of a diagnosis on a host that serves another Motebit key than the one that is pinned for it."""

from __future__ import annotations

from collections.abc import Iterable

from indexer.diagnosis.steps import Step, moment, step
from indexer.store import Store
from overlay.systems.motebit.store_hosts import KEY_CHANGED, HostIdentities
from parsers.pointers.locator import a_label, url_host
from parsers.reasons import Reason


def steps(store: Store, ids: Iterable[str]) -> list[Step]:
    """A step for each host of these listings whose key changed, by host; few or none."""
    badges = store.badges.get(ids)
    hosts = {badges[id_].host if id_ in badges else url_host(id_) or a_label(id_) or "" for id_ in ids}
    changed = [identity for identity in HostIdentities(store.engine).get(hosts).values() if identity.served_key]
    return [
        step(
            "identity",
            f"{Reason(KEY_CHANGED, moment(identity.changed_at // 1_000)).sentence}: {identity.host} serves "
            f"{identity.served_key}, and {identity.public_key} is pinned",
            ok=False, code=KEY_CHANGED,
        )
        for identity in sorted(changed, key=lambda identity: identity.host)
    ]  # fmt: skip
