"""Requests to endpoints of Solana: the genesis hash, a program's accounts, and the block of a slot.

Source: Solana's RPC documentation; the codes of errors are those of `rpc_custom_error.rs` of the validator.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic
from typing import Any, NamedTuple, TypeVar

from indexer.chains.http_client import SMALL_BYTES, TooLargeError
from indexer.chains.jsonrpc import METHOD_NOT_FOUND, JsonRpc, RpcError
from indexer.chains.solana import accounts
from indexer.chains.solana.accounts import Snapshot
from indexer.errors import SourceError, SourceRefusalError, SourceUnavailableError
from indexer.model import LATEST_TIME
from parsers.bitcoin import base58
from parsers.errors import ParseError
from parsers.pointers.pointer import SOLANA_MARK

log = logging.getLogger(__name__)

ANSWER_BYTES = 32 << 20
"""The limit of a response with all accounts of a program, unless the option `max-answer` sets another: 24 MB of data,
which need a deposit of 170 SOL. Parsed it takes nine times as much memory."""

WHOLE_SECONDS = 300.0
"""A node may scan all accounts of a program before it answers."""

RETURN_SECONDS = 300.0
"""How long the first endpoint is left for another one after it failed: of several, the first configured one counts."""

MISSING_CHECKED, ACCOUNTS_PER_CALL = 1_000, 100
"""Missing accounts that are requested by address before all count as closed, and the limit of one call."""

INVALID_PARAMS, EXCLUDED = -32602, -32010
_FINAL = {
    METHOD_NOT_FOUND: "it does not serve this method; use an endpoint that does",
    INVALID_PARAMS: "it does not take this program; correct ?program=",
    EXCLUDED: "it keeps no index of this program; use an endpoint that does",
}
_HASH = re.compile(r"[1-9A-HJ-NP-Za-km-z]{32,44}\Z", re.ASCII)
_T = TypeVar("_T")


class Slot(NamedTuple):
    """The hash of a slot's block (32 bytes) and its time (seconds since 1970), None where unknown."""

    hash: bytes | None
    time: int | None


class SolanaEndpoint:
    """One or several endpoints of one cluster, for the accounts of one program (base58). `violations` counts invalid
    responses."""

    def __init__(self, rpcs: Sequence[JsonRpc], program: str) -> None:
        self.rpc, self.program = Failover(rpcs), program
        self.answer_bytes, self.violations = ANSWER_BYTES, 0
        for rpc in rpcs:
            rpc.whole_seconds = WHOLE_SECONDS

    @property
    def current(self) -> JsonRpc:
        """The endpoint in use: the one that answered last."""
        return self.rpc.current

    async def close(self) -> None:
        """Close all connections."""
        await self.rpc.close()

    async def genesis(self) -> str:
        """The genesis hash in base58. Raises SourceError."""
        answer = await self._ask("getGenesisHash", limit=SMALL_BYTES)
        if not isinstance(answer, str) or not _HASH.match(answer):
            raise self._invalid(f"its genesis hash is {str(answer)[:60]!a}")
        return answer

    async def accounts(self, least: int) -> Snapshot:
        """The program's accounts that begin with the mark, at a finalized slot from `least` on. Raises SourceError."""
        config = {
            "commitment": "finalized", "encoding": "base64", "withContext": True, "minContextSlot": least,
            "filters": [{"memcmp": {"offset": 0, "bytes": base58.encode(SOLANA_MARK)}}],
        }  # fmt: skip
        try:
            answer = await self._ask("getProgramAccounts", self.program, config, limit=self.answer_bytes)
        except TooLargeError as error:
            raise SourceUnavailableError(
                f"{error}: the accounts of the program take more than can be read at once, so none is read; "
                "follow a program with smaller accounts, or set ?max-answer= in MiB"
            ) from error
        snapshot = await self._read(accounts.parse_snapshot, answer, self.program)
        if snapshot.slot < least:
            raise self._unused(
                f"{self.current.name}: {self.current.label} is at slot {snapshot.slot:,}, and slot {least:,} was read "
                "before: finalized slots do not go back, so it lags, or is of another chain; nothing is read"
            )
        return snapshot

    async def hidden_account(self, keys: Sequence[bytes], least: int) -> bytes | None:
        """One of these missing accounts that has the mark all the same, at a finalized slot from `least` on; None where
        none has. At most MISSING_CHECKED of them are requested, evenly spread. Raises SourceError."""
        chosen = keys[:: -(-len(keys) // MISSING_CHECKED)] if keys else keys
        config = {
            "commitment": "finalized", "encoding": "base64", "minContextSlot": least,
            "dataSlice": {"offset": 0, "length": len(SOLANA_MARK)},
        }  # fmt: skip
        for start in range(0, len(chosen), ACCOUNTS_PER_CALL):
            some = chosen[start : start + ACCOUNTS_PER_CALL]
            names = [base58.encode(key) for key in some]
            answer = await self._ask("getMultipleAccounts", names, config, limit=SMALL_BYTES)
            has_mark = await self._read(accounts.marked_accounts, answer, len(some), self.program)
            if any(has_mark):
                return some[has_mark.index(True)]
        return None

    async def slot(self, number: int) -> Slot:
        """The block at a slot. Raises SourceError."""
        config = {
            "commitment": "finalized", "encoding": "base64", "transactionDetails": "none", "rewards": False,
            "maxSupportedTransactionVersion": 0,
        }  # fmt: skip
        block = await self._call_or_none("getBlock", number, config)
        answer = block if isinstance(block, dict) else {}
        time = _time(answer.get("blockTime"))
        if time is None:
            time = _time(await self._call_or_none("getBlockTime", number))
        return Slot(accounts.address_bytes(answer.get("blockhash")), time)

    async def _call_or_none(self, method: str, *params: Any) -> Any:
        """The result of a call, None where the endpoint refuses it or fails, as many do for old slots or always: the
        snapshot that it is about has been read, and is read without it."""
        try:
            return await self.rpc.call(method, *params, limit=SMALL_BYTES)
        except SourceError as error:
            log.debug("%s: %s", self.current.name, error)
            return None

    async def _ask(self, method: str, *params: Any, limit: int) -> Any:
        try:
            return await self.rpc.call(method, *params, limit=limit)
        except RpcError as error:
            if error.code in _FINAL:
                raise SourceRefusalError(f"{error}: {_FINAL[error.code]}") from error
            raise

    async def _read(self, parse: Callable[..., _T], *answer: Any) -> _T:
        try:
            return await asyncio.to_thread(parse, *answer)
        except ParseError as error:
            raise self._invalid(str(error)) from error

    def too_far(self, slot: int, most: int) -> SourceUnavailableError:
        """The error for a slot above `most`, the highest that can be reached by now."""
        return self._unused(
            f"{self.current.name}: {self.current.label} is at slot {slot:,}, and slot {most:,} is the highest that can "
            "be reached by now: the endpoint or this clock is wrong; nothing is read"
        )

    def incomplete(self, account: bytes) -> SourceUnavailableError:
        """The error for an existing account that is missing in the list of the program's accounts."""
        return self._invalid(
            f"it leaves out the account {base58.encode(account)}, which it returns when requested alone"
        )

    def _invalid(self, reason: str) -> SourceUnavailableError:
        self.violations += 1
        return self._unused(f"{self.current.name}: {self.current.label} sends an invalid answer: {reason}")

    def _unused(self, reason: str) -> SourceUnavailableError:
        """The error for a response that is not used; another endpoint is used the next time."""
        error = SourceUnavailableError(reason)
        self.rpc.move_on(error)
        return error


def _time(answer: Any) -> int | None:
    """A plausible time in seconds since 1970, None for any other value."""
    return answer if isinstance(answer, int) and not isinstance(answer, bool) and 0 < answer <= LATEST_TIME else None


class Failover:
    """Calls the current one of `all` (at least one); when that fails, each of the others once. `clock` gives monotonic
    seconds."""

    def __init__(self, rpcs: Sequence[JsonRpc]) -> None:
        self.all = tuple(rpcs)
        self.current = self.all[0]
        self.clock = monotonic
        self._tried_at = float("-inf")
        self._answered: JsonRpc | None = None
        for rpc in self.all:
            rpc.has_substitute = partial(self._has_substitute, rpc)

    def _has_substitute(self, rpc: JsonRpc) -> bool:
        """Whether another endpoint answered last."""
        return self._answered is not None and self._answered is not rpc

    async def close(self) -> None:
        """Close all connections."""
        for rpc in self.all:
            await rpc.close()

    async def call(self, method: str, *params: Any, limit: int) -> Any:
        """The result of a call. Raises the first SourceUnavailableError of the endpoints, else the first error."""
        failures: list[SourceError] = []
        for _ in self.all:
            try:
                answer = await self.current.call(method, *params, limit=limit)
                self._answered = self.current
                return answer
            except SourceError as error:
                if self._answered is self.current:
                    self._answered = None
                failures.append(error)
                self.move_on(error)
        passing = (error for error in failures if isinstance(error, SourceUnavailableError))
        raise next(passing, failures[0])

    def prefer_first(self) -> None:
        """Use the first one again, RETURN_SECONDS after it was used last."""
        if self.current is not self.all[0] and self.clock() - self._tried_at >= RETURN_SECONDS:
            self.current = self.all[0]

    def move_on(self, reason: SourceError) -> None:
        """Use the next endpoint from now on."""
        if len(self.all) > 1:
            if self.current is self.all[0]:
                self._tried_at = self.clock()
            self.current = self.all[(self.all.index(self.current) + 1) % len(self.all)]
            log.warning("%s; switching to %s", reason, self.current.label)
