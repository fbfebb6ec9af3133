"""The findings of `a2b doctor`: each function takes facts, and returns what an operator should do about them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from indexer.model import EVM

if TYPE_CHECKING:
    from indexer.settings import Settings
    from indexer.store.backup import BackupRecord


class OperatorFinding(NamedTuple):
    """A fault, or what will be one: a stable code for programs, a sentence, and what to do. What does not answer
    `is_unreachable`: more could be found there."""

    code: str
    text: str
    advice: str
    is_unreachable: bool = False

    def as_json(self) -> dict[str, str]:
        """Its members for programs."""
        return {"code": self.code, "text": self.text, "advice": self.advice}


GIB = 1 << 30
LEAST_FREE = GIB
"""Free bytes below which a disk is nearly full: a block of 4 GB is read in parts, and SQLite's log grows beside it."""

BACKUP_DAYS = 3
"""Days after which a backup is old: the timer makes one a day."""

CLOCK_SECONDS = 10
"""Seconds by which the clocks of server and database may differ."""

FUTURE_SECONDS = 7_200
"""Seconds by which the time of a block may be ahead: nodes refuse later ones."""

BLOCK_SECONDS, EVM_SECONDS = 3 * 3_600, 1_800
"""Seconds without a block after which a chain stands still: ten minutes apart on average, 1 in 65 million gaps of BSV
is longer."""

LOOPBACK = ("127.0.0.1", "::1", "localhost")

NEEDS = {
    "relay_address": ("relay", "A2B_RELAY=on"),
    "rates_max_age": ("rates", "A2B_RATES"),
    "rates_every": ("rates", "A2B_RATES"),
}
"""Settings that have no effect without another one, which is named as it would be written."""

OF_SYSTEMS = {
    "gasp_peers": "bsv_overlay", "arc_callback_token": "bsv_overlay", "relay": "relay", "prices": "payments",
    "delegation_roots": "delegateos",
}  # fmt: skip
"""Settings of systems, by which of `A2B_SYSTEMS` reads them."""


def of_settings(settings: Settings, stated: Iterable[str]) -> Iterator[OperatorFinding]:
    """Settings that contradict each other; `stated` are the names of those that are not left at their defaults."""
    stated = frozenset(stated)
    for name, (other, word) in NEEDS.items():
        if name in stated and not getattr(settings, other):
            yield OperatorFinding(
                "setting-unused", f"A2B_{name.upper()} has no effect alone", f"set {word}, or remove it"
            )
    served = settings.systems.split()
    for name, system in OF_SYSTEMS.items():
        if name in stated and served != ["all"] and system not in served:
            yield OperatorFinding(
                "setting-unused", f"A2B_{name.upper()} has no effect: A2B_SYSTEMS leaves {system} out",
                f"add {system} to A2B_SYSTEMS, or remove the setting",
            )  # fmt: skip
    if settings.public_url and settings.host in LOOPBACK and not settings.trusted_proxies:
        yield OperatorFinding(
            "no-trusted-proxy", "all clients behind the proxy of A2B_PUBLIC_URL count as one, and soon get 429",
            "name the proxy: A2B_TRUSTED_PROXIES='127.0.0.1 ::1'",
        )  # fmt: skip
    if settings.host not in LOOPBACK and settings.metrics is None:
        yield OperatorFinding(
            "metrics-public", f"/metrics is served to all that reach {settings.host}",
            "give it an address of its own: A2B_METRICS=127.0.0.1:9464",
        )  # fmt: skip
    if settings.junglebus_token and not any(chain.url.startswith("junglebus:") for chain in settings.chains):
        yield OperatorFinding(
            "setting-unused", "A2B_JUNGLEBUS_TOKEN has no effect: no chain is read from a JungleBus",
            "remove it, or correct A2B_CHAINS",
        )  # fmt: skip
    nodes = [chain for chain in settings.chains if chain.url.startswith(("http:", "https:"))]
    for name in ("prices", "submit_broadcast"):
        if name in stated and getattr(settings, name) and settings.chains and not nodes:
            yield OperatorFinding(
                "setting-needs-node", f"A2B_{name.upper()} needs a node, and A2B_CHAINS has none",
                "add a node as a second source of the chain, NAME=http://user:password@host:port",
            )  # fmt: skip
    if settings.rates and settings.rates_max_age < settings.rates_every:
        yield OperatorFinding(
            "rates-too-rare", "quotes are too old before they are fetched again",
            "make A2B_RATES_MAX_AGE at least twice A2B_RATES_EVERY",
        )  # fmt: skip


def of_disk(folder: Path, free: int, index_bytes: int) -> Iterator[OperatorFinding]:
    """A disk with less room than a rebuild of the index takes."""
    needed = max(LEAST_FREE, index_bytes)
    if free < needed:
        text = f"the disk of {folder} has {free / GIB:.1f} GiB free; a rebuild of the index takes {needed / GIB:.1f}"
        yield OperatorFinding("disk-full", text, "free or add space: on a full disk nothing is followed or indexed")


def of_modes(modes: Mapping[Path, int]) -> Iterator[OperatorFinding]:
    """Folders and files that others may read; by their permission bits."""
    for path, mode in modes.items():
        if mode & 0o077:
            allowed = 0o700 if path.is_dir() else 0o600
            text = f"{path} has mode {mode & 0o777:04o}: other users of this machine may read keys and secrets"
            yield OperatorFinding("readable-by-others", text, f"chmod {allowed:o} {path}")


def of_clock(now: float, database_time: float, newest_block: Mapping[str, int]) -> Iterator[OperatorFinding]:
    """Clocks that differ: of the database, or of the newest block of each chain."""
    advice = "set the clock, and keep it so: timedatectl set-ntp true"
    if abs(now - database_time) > CLOCK_SECONDS:
        text = f"the clock of this machine is {now - database_time:+,.0f} s from that of the database"
        yield OperatorFinding("clock", text, f"{advice}, on both machines")
    for name, block_time in newest_block.items():
        if block_time > now + FUTURE_SECONDS:
            text = f"the newest block of {name} is {block_time - now:,.0f} s ahead of this machine's clock"
            yield OperatorFinding("clock", text, advice)


def of_backup(last: BackupRecord | None, now: float) -> Iterator[OperatorFinding]:
    """No backup, or an old one."""
    advice = "run a2b backup FILE each day (a2b-backup.timer), and copy the file to another machine"
    if last is None:
        yield OperatorFinding("backup-missing", "no backup was made of this database", advice)
    elif now - last.time > BACKUP_DAYS * 86_400:
        yield OperatorFinding("backup-old", f"the last backup is {(now - last.time) / 86_400:,.0f} days old", advice)


def of_status(
    status: Mapping[str, Any], configured: Iterable[str], now: float | None = None
) -> Iterator[OperatorFinding]:
    """The faults in what `a2b status` prints, of these configured chains and of others."""
    configured, moment = set(configured), time.time() if now is None else now
    for chain in status["chains"]:
        yield from _of_chain(chain, is_configured=chain["name"] in configured, now=moment)
    for name in sorted(configured - {chain["name"] for chain in status["chains"]}):
        yield OperatorFinding(
            "chain-never-followed", f"nothing of chain {name} is stored", "start a2b index, or a2b up"
        )
    checked = status.get("integrity") or {}
    if checked.get("state") in ("failed", "damaged"):
        advice = "stop the program and put a backup in its place (operations: A damaged SQLite file)"
        yield OperatorFinding("database-damaged", f"the database file is damaged: {checked['detail']}", advice)
    if (failed := status.get("failed") or {}).get("count"):
        advice = "the log of the indexer says why; they are tried again each hour"
        yield OperatorFinding("left-out", f"{failed['count']:,} listings or rows are left out, as they failed", advice)
    yield from _of_index(status.get("index"))


def _of_chain(chain: Mapping[str, Any], *, is_configured: bool, now: float) -> Iterator[OperatorFinding]:
    name, state, error = chain["name"], chain["state"], chain.get("error") or ""
    if not is_configured:
        advice = f"add it to A2B_CHAINS, or remove it for good: a2b forget {name}"
        yield OperatorFinding("chain-not-configured", f"chain {name} is stored, and not in A2B_CHAINS", advice)
        return
    if state == "unreachable":
        advice = "start the source, or correct its address in A2B_CHAINS; it is asked again by itself"
        yield OperatorFinding("chain-unreachable", f"chain {name}: {error}", advice)
    elif state == "stopped":
        advice = "correct A2B_CHAINS or the source, then restart a2b index"
        yield OperatorFinding("chain-stopped", f"chain {name}: {error}", advice)
    elif state == "silent":
        advice = "start or restart a2b index (systemctl status a2b-index)"
        yield OperatorFinding("follower-silent", f"chain {name}: {error or 'no process follows it'}", advice)
    elif state == "stored":
        yield OperatorFinding("chain-not-followed", f"no process follows chain {name}", "start a2b index, or a2b up")
    elif error:
        yield OperatorFinding("chain-fails", f"chain {name}: {error}", "the log of a2b index says more")
    elif (seconds := _without_block(chain, now)) is not None:
        advice = "see whether the node is synchronized and has peers; name a second source in A2B_CHAINS"
        yield OperatorFinding("no-block", f"chain {name} has had no block for {seconds / 3_600:,.1f} hours", advice)
    if text := chain.get("sourcesDisagree"):
        advice = "compare the next block with a third source, and remove the wrong one from A2B_CHAINS"
        yield OperatorFinding("sources-disagree", f"chain {name}: {text}", advice)
    if "--again" in (note := chain.get("note") or ""):
        yield OperatorFinding("old-rules", f"chain {name}: {note}", f"stop a2b index, and run a2b index --again {name}")


def _without_block(chain: Mapping[str, Any], now: float) -> float | None:
    """The seconds since the last block of a followed chain, None where that is not long."""
    last = chain.get("lastBlockAt")
    if chain["state"] != "following" or last is None or "regtest" in (chain.get("network") or ""):
        return None
    seconds = now - datetime.fromisoformat(last).astimezone(UTC).timestamp()
    return seconds if seconds > (EVM_SECONDS if chain["chain"].startswith(EVM) else BLOCK_SECONDS) else None


def _of_index(index: Mapping[str, Any] | None) -> Iterator[OperatorFinding]:
    if index is None:
        yield OperatorFinding(
            "index-missing", "there is no search index", "start a2b serve or a2b up where this is a server"
        )
        return
    if index.get("damage"):
        yield OperatorFinding("index-damaged", f"the index is damaged: {index['damage']}", "run a2b rebuild")
    if index.get("error"):
        yield OperatorFinding(
            "index-not-written", f"the index is not written: {index['error']}", "free disk space, or see why"
        )
    if index.get("outdated"):
        text = "the index is of another release, or of other systems (A2B_SYSTEMS)"
        yield OperatorFinding("index-outdated", text, "run a2b rebuild; a server that starts does so, too")
    elif index["behind"] >= 1_000:
        text = f"searches do not see {index['behind']:,} stored changes"
        yield OperatorFinding(
            "index-behind", text, "start a2b serve or a2b up; where it runs, its log names the reason"
        )


def of_node(name: str, warning: str, pruned_below: int, next_height: int) -> Iterator[OperatorFinding]:
    """Options that a node lacks; `next_height` is the first block that is not stored yet."""
    if warning:
        yield OperatorFinding(
            "node-txindex", f"chain {name}: {warning}", "set txindex=1 in the node's configuration, restart it"
        )
    if pruned_below > next_height:
        text = f"chain {name}: the node has pruned blocks {next_height:,} to {pruned_below - 1:,}, which are not stored"
        yield OperatorFinding(
            "node-pruned", text, "set prune=0 and start the node with -reindex, or read from another source"
        )
