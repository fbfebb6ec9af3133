"""What an endpoint of Solana is asked: its genesis, a program's accounts, and the block of a slot.

Source: Solana's RPC documentation; the codes of errors are those of `rpc_custom_error.rs` of the validator.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import base58

from indexer.chains import SourceError, SourceUnavailableError
from indexer.chains.jsonrpc import NO_SUCH_METHOD, JsonRpc, RefusedError, TooLargeError
from indexer.chains.solana import accounts
from indexer.chains.solana.accounts import AnswerError, Snapshot
from indexer.chains.solana.failover import Failover
from parsers.pointer import SOLANA_MARK

ANSWER_BYTES = 128 << 20
"""What all accounts of a program may take in one answer: 96 MB of data, for which 670 SOL must be deposited."""

SMALL_BYTES = 1 << 20
WHOLE_SECONDS = 300.0
"""A node may look through all accounts of a program before it answers."""

CHECKED, AT_ONCE = 1_000, 100
"""Accounts that are asked for by name before they count as closed, and how many the method takes at once."""

INVALID_PARAMS, EXCLUDED = -32602, -32010
_FINAL = {
    NO_SUCH_METHOD: "it does not serve this method; use an endpoint that does",
    INVALID_PARAMS: "it does not take this program; correct ?program=",
    EXCLUDED: "it keeps no index of this program; use an endpoint that does",
}
_HASH = re.compile(r"[1-9A-HJ-NP-Za-km-z]{32,44}\Z", re.ASCII)
_T = TypeVar("_T")


class Slot(NamedTuple):
    """What is told of a slot: the hash of its block (32 bytes) and its time (seconds since 1970), where known."""

    hash: bytes | None
    time: int | None


class Endpoint:
    """Asks one or several endpoints about one program (base58)."""

    def __init__(self, rpcs: Sequence[JsonRpc], program: str) -> None:
        self.rpc, self.program = Failover(rpcs), program
        self.answer_bytes = ANSWER_BYTES
        for rpc in rpcs:
            rpc.whole_seconds = WHOLE_SECONDS

    @property
    def asked(self) -> JsonRpc:
        """The endpoint that is asked now: the one that answered last."""
        return self.rpc.current

    async def close(self) -> None:
        """Give up all connections."""
        await self.rpc.close()

    async def genesis(self) -> str:
        """The genesis hash in base58. Raises SourceError."""
        told = await self._ask("getGenesisHash", limit=SMALL_BYTES)
        if not isinstance(told, str) or not _HASH.match(told):
            raise self._mad(f"its genesis hash is {str(told)[:60]!a}")
        return told

    async def accounts(self, least: int) -> Snapshot:
        """The program's accounts that carry the mark, at a finalized slot from `least` on. Raises SourceError."""
        asked = {
            "commitment": "finalized", "encoding": "base64", "withContext": True, "minContextSlot": least,
            "filters": [{"memcmp": {"offset": 0, "bytes": base58.b58encode(SOLANA_MARK).decode()}}],
        }  # fmt: skip
        try:
            told = await self._ask("getProgramAccounts", self.program, asked, limit=self.answer_bytes)
        except TooLargeError as error:
            raise SourceUnavailableError(
                f"{error}: the accounts of the program take more than can be read at once, so none is read; "
                "follow a program whose accounts take less"
            ) from error
        seen = await self._read(accounts.read, told, self.program)
        if seen.slot < least:
            raise self._moved_on(
                f"{self.asked.name}: {self.asked.shown} is at slot {seen.slot:,}, and slot {least:,} was read before: "
                "finalized slots do not go back, so it lags behind, or is of another chain; nothing of it is read"
            )
        return seen

    async def still_there(self, keys: Sequence[bytes], least: int) -> bytes | None:
        """One of these accounts that carries the mark all the same, at a finalized slot from `least` on; None where
        none does. At most CHECKED of them are asked for, evenly. Raises SourceError."""
        chosen = keys[:: -(-len(keys) // CHECKED)] if keys else keys
        asked = {
            "commitment": "finalized", "encoding": "base64", "minContextSlot": least,
            "dataSlice": {"offset": 0, "length": len(SOLANA_MARK)},
        }  # fmt: skip
        for at in range(0, len(chosen), AT_ONCE):
            some = chosen[at : at + AT_ONCE]
            names = [accounts.shown(each) for each in some]
            told = await self._ask("getMultipleAccounts", names, asked, limit=SMALL_BYTES)
            try:
                carry = accounts.carrying(told, len(some), self.program)
            except AnswerError as error:
                raise self._mad(str(error)) from error
            if any(carry):
                return some[carry.index(True)]
        return None

    async def slot(self, number: int) -> Slot:
        """The block at a slot; what the endpoint cannot tell of it is None. Raises SourceError."""
        wanted = {
            "commitment": "finalized", "encoding": "base64", "transactionDetails": "none", "rewards": False,
            "maxSupportedTransactionVersion": 0,
        }  # fmt: skip
        block = await self._maybe("getBlock", number, wanted)
        told = block if isinstance(block, dict) else {}
        time = _time(told.get("blockTime"))
        if time is None:
            time = _time(await self._maybe("getBlockTime", number))
        return Slot(accounts.key(told.get("blockhash")), time)

    async def _maybe(self, method: str, *params: Any) -> Any:
        """The result of a call that many endpoints refuse, for old slots or altogether; None then."""
        try:
            return await self.rpc.call(method, *params, limit=SMALL_BYTES)
        except (RefusedError, TooLargeError):
            return None

    async def _ask(self, method: str, *params: Any, limit: int) -> Any:
        try:
            return await self.rpc.call(method, *params, limit=limit)
        except RefusedError as error:
            if error.code in _FINAL:
                raise SourceError(f"{error}: {_FINAL[error.code]}") from error
            raise

    async def _read(self, read: Callable[[Any, str], _T], told: Any, program: str) -> _T:
        try:
            return await asyncio.to_thread(read, told, program)
        except AnswerError as error:
            raise self._mad(str(error)) from error

    def leaves_out(self, account: bytes) -> SourceUnavailableError:
        """The error to raise where an account that is there is missing among those of the program."""
        return self._mad(f"it leaves out the account {accounts.shown(account)}, which is there when asked for")

    def _mad(self, why: str) -> SourceUnavailableError:
        return self._moved_on(f"{self.asked.name}: {self.asked.shown} answers what no endpoint does: {why}")

    def _moved_on(self, why: str) -> SourceUnavailableError:
        """The error to raise for an answer that is not read; another endpoint is asked the next time."""
        error = SourceUnavailableError(why)
        self.rpc.move_on(error)
        return error


def _time(told: Any) -> int | None:
    """A time in seconds since 1970 that can be one."""
    return told if isinstance(told, int) and not isinstance(told, bool) and 0 < told < 1 << 33 else None
