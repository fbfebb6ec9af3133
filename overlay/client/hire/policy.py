"""The policy of a wallet: what may be paid without a question, in `policy.toml`. Without it, nothing may.

Amounts are satoshis of the coin that is paid, fees included.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

MAX_BYTES = 64 << 10
"""Bytes of a policy."""


class PolicyError(Exception):
    """A policy that cannot be read; the message names the file and the member."""


class Expense(NamedTuple):
    """A payment that may be made: the listing, its host, whether the host names the listing, the currency, satoshis
    with the fee, and whether another source confirmed that its revision is the newest. `concerns` are codes of warnings
    that need a person."""

    listing: str
    host: str
    is_named: bool
    currency: str
    satoshis: int
    is_newest: bool
    concerns: Sequence[str] = ()


class SpentSatoshis(NamedTuple):
    """Satoshis of the currency of an expense that were paid or are reserved since a day: in all, to its listing, and by
    hires of a model."""

    day: int = 0
    listing: int = 0
    by_model: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The limits of payments without a question. `domains` and `ids` name the only listings, both empty any; a domain
    covers its subdomains. `unverified_domains` allows hosts that do not name their listing. A day is the last 24 hours;
    `mcp_satoshis_per_day` is for hires that a model asks for. `minutes` is how long an answer is waited for."""

    max_satoshis_per_call: int = 0
    max_satoshis_per_day: int = 0
    max_satoshis_per_agent: int = 0
    mcp_satoshis_per_day: int = 0
    newest_unchecked_satoshis: int = 0
    minutes: int = 15
    domains: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    currencies: tuple[str, ...] = ("BSV",)
    unverified_domains: bool = False

    def objection(self, expense: Expense, spent: SpentSatoshis, *, by_model: bool = False) -> str:
        """Why an expense needs a question, "" where it is within the policy."""
        if above := self.above_cap(expense.satoshis, spent, by_model=by_model):
            return above
        if not expense.is_newest and expense.satoshis > self.newest_unchecked_satoshis:
            cap = f"newest_unchecked_satoshis = {self.newest_unchecked_satoshis:,}"
            return f"nothing shows that it is the newest revision, and {cap}"
        if (self.domains or self.ids) and expense.listing not in self.ids and not self._covers(expense.host):
            return f"neither ids nor domains have {expense.listing} at {expense.host}"
        if expense.satoshis and expense.currency not in self.currencies:
            return f"currencies do not have {expense.currency}"
        if not expense.is_named and not self.unverified_domains:
            return f"{expense.host} does not name the listing, and unverified_domains is not true"
        return f"it has the warning {expense.concerns[0]}" if expense.concerns else ""

    def above_cap(self, satoshis: int, spent: SpentSatoshis, *, by_model: bool = False) -> str:
        """Which cap so many more satoshis are above, "" for none."""
        caps = [
            ("max_satoshis_per_call", self.max_satoshis_per_call, 0),
            ("max_satoshis_per_day", self.max_satoshis_per_day, spent.day),
            ("max_satoshis_per_agent", self.max_satoshis_per_agent, spent.listing),
        ]
        caps += [("mcp_satoshis_per_day", self.mcp_satoshis_per_day, spent.by_model)] if by_model else []
        above = ((name, cap, before + satoshis) for name, cap, before in caps if satoshis and before + satoshis > cap)
        return next((f"{total:,} satoshis are above {name} = {cap:,}" for name, cap, total in above), "")

    def _covers(self, host: str) -> bool:
        return any(host == domain or host.endswith(f".{domain}") for domain in self.domains)


def read_policy(file: Path) -> Policy:
    """The policy in a TOML file; without the file, the one that allows nothing. Raises PolicyError."""
    try:
        with file.open("rb") as opened:
            body = opened.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return Policy()
    except OSError as error:
        raise PolicyError(f"{file} cannot be read: {error.strerror}") from None
    try:
        members = tomllib.loads(body.decode()) if len(body) <= MAX_BYTES else None
    except ValueError as error:
        raise PolicyError(f"{file} is not TOML: {str(error)[:200]}") from None
    if members is None:
        raise PolicyError(f"{file} has more than {MAX_BYTES:,} bytes")
    return Policy(**{name: _member(file, name, value) for name, value in members.items()})


_USUAL: Mapping[str, Any] = {field.name: field.default for field in fields(Policy)}


def _member(file: Path, name: str, value: Any) -> Any:
    usual = _USUAL.get(name)
    if usual is None:
        raise PolicyError(f"{file}: {name[:100]!a} is not a member of a policy: {', '.join(_USUAL)}")
    if isinstance(usual, tuple):
        if isinstance(value, list) and all(isinstance(text, str) for text in value):
            return tuple(value)
        raise PolicyError(f"{file}: {name} is a list of texts")
    if type(value) is not type(usual) or (isinstance(value, int) and value < 0):
        raise PolicyError(f"{file}: {name} is {'true or false' if usual is False else 'a whole number from 0 on'}")
    return value
