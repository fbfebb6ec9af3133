"""Pulls the outputs that the configured peers admit (GASP)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from indexer.sync.follower import Follower
from overlay.api.systems import Parts
from overlay.jobs import PeriodicJob, Role


def jobs(parts: Parts) -> list[PeriodicJob]:
    """The jobs of the process that follows chains."""
    if not (parts.settings.gasp_peers and parts.followers):
        return []
    from indexer.admission.admission import Admissions
    from overlay.systems.bsv_overlay.gasp.peer import GaspPeer
    from overlay.systems.bsv_overlay.gasp.puller import PULL_SECONDS, GaspPuller

    admissions, is_ready, results = Admissions(parts.store), partial(_follow_bsv, parts.followers), []
    for number, peer in enumerate(map(GaspPeer, parts.settings.gasp_peers), 1):
        run, close = GaspPuller(peer, admissions, is_ready).run, peer.close
        results.append(PeriodicJob(name=f"gasp {number}", run=run, every=PULL_SECONDS, role=Role.INDEXER, close=close))
    return results


def _follow_bsv(followers: Sequence[Follower]) -> bool:
    """Whether a follower is at the tip of a BSV chain."""
    states = (follower.progress for follower in followers)
    return any(state.state == "following" and state.caip2.startswith("bsv:") for state in states)
