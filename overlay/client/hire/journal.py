"""The journal of hires: each step is written before it is done, so that nothing is paid twice.

An SQLite file of the wallet. Several processes may use it at once.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from overlay.client.hire.policy import SpentSatoshis
from parsers.bitcoin.tx import Outpoint, Transaction, read

DAY_SECONDS = 86_400


class HireState(StrEnum):
    """The states of a hire. `offered`: it waits for a person; `agreed`: nothing is signed; `signed` and `final-signed`:
    a claim is, and was not sent; `called`: the claim may have reached the agent; `working`: the agent has the task;
    `needs-final`: the work is done, and the rest is due; `answered`: the answer is stored. The last four are ends."""

    OFFERED = "offered"
    AGREED = "agreed"
    SIGNED = "signed"
    CALLED = "called"
    WORKING = "working"
    NEEDS_FINAL = "needs-final"
    FINAL_SIGNED = "final-signed"
    FINAL_CALLED = "final-called"
    ANSWERED = "answered"
    DONE = "done"
    FAILED = "failed"
    REFUSED = "refused"
    CANCELLED = "cancelled"


ENDS = frozenset((HireState.DONE, HireState.FAILED, HireState.REFUSED, HireState.CANCELLED))
UNPAID = frozenset((HireState.OFFERED, HireState.AGREED, HireState.CANCELLED))


class JournalError(Exception):
    """A journal that cannot be used, or a hire that is not in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hire:
    """A hire. `price` is the offer as its proved card has it, empty for a free call; `satoshis` and `fee` are those of
    the signed claims, in `currency` on `network`, and `most_satoshis` the cap. `content` is the input, in hex unless it
    is a text, and `name` its file name. `task` is the id that repeats the call, `agent_task` the id that the agent
    gave. Times are seconds since 1970; `heard_at` is the last sign of the agent. `claims` are the signed claims, the
    deposit before the final one, and `spends` the coins of each with their satoshis; `rate` converted their price, ""
    for one in the coin itself. `by_policy`: no person agreed to it; `by_model`: a model asked for it. `agent_key` is
    the Ed25519 key of the card (hex), `receipt` what it signed of the work, `receipt_fault` why that does not
    verify."""

    id: str
    need: str
    url: str
    listing: str
    agent: str
    card_sha256: str
    agent_key: str = ""
    protocol: str
    endpoint: str
    price: dict[str, Any] = field(default_factory=dict)
    skill: str = ""
    tool: str = ""
    currency: str = ""
    network: str = ""
    rate: str = ""
    satoshis: int = 0
    most_satoshis: int = 0
    fee: int = 0
    content: str = ""
    name: str = ""
    is_text: bool = True
    task: str
    agent_task: str = ""
    claims: tuple[dict[str, Any], ...] = ()
    spends: tuple[dict[str, int], ...] = ()
    out: str = ""
    files: tuple[str, ...] = ()
    receipt: dict[str, Any] = field(default_factory=dict)
    receipt_fault: str = ""
    detail: str = ""
    by_policy: bool = False
    by_model: bool = False
    state: HireState = HireState.AGREED
    created_at: int = 0
    heard_at: int = 0

    @property
    def transactions(self) -> list[Transaction]:
        """The transactions of its claims."""
        return [read(bytes.fromhex(claim["rawTx"])) for claim in self.claims]

    @property
    def spent(self) -> set[Outpoint]:
        """The coins that its claims spend."""
        return {tx_input.prevout for tx in self.transactions for tx_input in tx.inputs}


class Journal:
    """The hires in a file; `clock` gives seconds since 1970. Every method raises JournalError."""

    def __init__(self, file: Path, clock: Callable[[], float] = time.time) -> None:
        self._file, self._clock = file, clock
        try:
            os.close(os.open(file, os.O_CREAT | os.O_WRONLY, 0o600))  # inputs and claims are for its owner alone
        except OSError as error:
            raise JournalError(f"{file} cannot be used: {error.strerror}") from None
        with self._opened() as connection:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS hires (id TEXT PRIMARY KEY, created_at INTEGER NOT NULL, "
                "state TEXT NOT NULL, body TEXT NOT NULL)"
            )

    def now(self) -> int:
        """Seconds since 1970."""
        return int(self._clock())

    def save(self, hire: Hire, **members: Any) -> Hire:
        """Write a hire with these members, durably; returns it."""
        hire = replace(hire, **members)
        row = (hire.id, hire.created_at, hire.state.value, json.dumps(asdict(hire)))
        with self._opened() as connection:
            connection.execute("INSERT OR REPLACE INTO hires VALUES (?, ?, ?, ?)", row)
        return hire

    def get(self, id_: str) -> Hire:
        """The hire with an id, or with the only one that begins so; "" for the newest that is open."""
        hires = [
            hire
            for hire in self.all()
            if (hire.id.startswith(id_) if id_ else hire.state not in ENDS | {HireState.OFFERED})
        ]
        if not hires or (id_ and len(hires) > 1):
            raise JournalError(f"{'no' if not hires else 'more than one'} hire {id_[:40] or 'is open'}")
        return hires[0]

    def all(self) -> list[Hire]:
        """All hires, the newest first."""
        with self._opened() as connection:
            rows = connection.execute("SELECT body FROM hires ORDER BY created_at DESC, rowid DESC").fetchall()
        return [_read(body) for (body,) in rows]

    def reserved(self) -> set[Outpoint]:
        """The coins that claims spend, those of cancelled hires aside: they pay for nothing else."""
        return {outpoint for hire in self.all() if hire.state != HireState.CANCELLED for outpoint in hire.spent}

    def spent(self, currency: str, listing: str) -> SpentSatoshis:
        """The satoshis of a currency that hires of the last day paid or reserve, and of these to a listing."""
        since = self.now() - DAY_SECONDS
        recent = [
            (hire, hire.satoshis + hire.fee)
            for hire in self.all()
            if hire.created_at > since and hire.currency == currency and hire.state not in UNPAID
        ]
        return SpentSatoshis(
            sum(satoshis for _, satoshis in recent),
            sum(satoshis for hire, satoshis in recent if hire.listing == listing),
            sum(satoshis for hire, satoshis in recent if hire.by_model),
        )

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self._file, timeout=30)) as connection, connection:
                connection.execute("PRAGMA synchronous = FULL")
                yield connection
        except sqlite3.Error as error:
            raise JournalError(f"{self._file} cannot be used: {error}") from None


def _read(body: str) -> Hire:
    members = json.loads(body)
    tuples = {name: tuple(members[name]) for name in ("claims", "spends", "files")}
    return Hire(**{**members, **tuples, "state": HireState(members["state"])})
