"""The relay: its tables, its identity, the authentication of callers by bearer tokens, and its refusals."""

from __future__ import annotations

import time
from collections.abc import Callable
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from overlay.systems.relay.store import RelayStore
from overlay.systems.relay.store_agents import RelayAgents
from overlay.systems.relay.store_ledger import InsufficientFundsError
from parsers.claims.canonical_json import DocumentError, base64url_text, jcs
from parsers.claims.motebit.bearer_token import PREFIX, SignedRequest, check_bound, payload_of
from parsers.claims.motebit.identifiers import canonical_id, sovereign_id
from parsers.claims.verdict import SKEW_MS

if TYPE_CHECKING:
    from collections.abc import Collection

    from overlay.systems.relay.bank import Bank


class RelayRefusedError(Exception):
    """A request that is refused: the HTTP status, a stable code, a sentence for people, and more members of the
    answer.

    Codes: those of bearer tokens, receipts and successions, and bad-request, unauthorized, forbidden, not-registered,
    expired, capability-missing, insufficient-funds, too-many, too-dear, key-mismatch, not-bound, not-a-deposit,
    bad-destination, no-coins, no-deposits, unknown-withdrawal, signed.
    """

    def __init__(self, status: int, code: str, detail: str, **members: Any) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail, self.members = status, code, detail, members


def insufficient_funds(error: InsufficientFundsError, use: str) -> RelayRefusedError:
    """The refusal of an amount that an account cannot pay. `use` is the purpose of the missing satoshis."""
    detail = f"{error.needed:,} are {use}, and the account has {error.balance:,}"
    return RelayRefusedError(402, "insufficient-funds", detail, required=error.needed, balance=error.balance)


MAX_TOKEN_MS = 3_600_000
"""How long a token may live: its nonce is kept as long. Motebit's live for 5 minutes."""

_SCOPE = "motebit-token"


class Relay:
    """`sign` makes the Ed25519 signature of this server's identity key, `public_key` verifies it; `clock` gives seconds
    since 1970; `bank` takes deposits and withdrawals, where the operator has an address for them."""

    def __init__(
        self,
        store: RelayStore,
        public_key: bytes,
        sign: Callable[[bytes], bytes],
        *,
        bank: Bank | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.ledger, self.nonces = store.ledger, store.nonces
        self.agents, self.tasks, self.cash = store.agents, store.tasks, store.cash
        self.bank = bank
        self.id = sovereign_id(public_key)
        self._sign, self._clock = sign, clock

    def now(self) -> int:
        """Seconds since 1970."""
        return int(self._clock())

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return int(self._clock() * 1_000)

    def signed(self, body: dict[str, Any]) -> dict[str, Any]:
        """A record with the relay's signature over its other members (RFC 8785), in base64url."""
        return body | {"signature": base64url_text(self._sign(jcs(body)))}

    def identity(self, text: str) -> str:
        """The identity that a text names: itself where it is registered so, else its canonical form."""
        form = canonical_id(text)
        return text if form in ("", text) or self.agents.agent(text) else form

    def caller(self, request: SignedRequest, audiences: Collection[str], *, once: bool) -> str:
        """The `motebit_id` that the token of a request, of one of these audiences, was signed for, by its registered
        key. With `once` no other request may have it: reads may repeat one that is bound to the host. Raises
        RelayRefusedError (401)."""
        mid: str = self.payload(request, audiences, None, once=once)["mid"]
        return mid

    def payload(
        self, request: SignedRequest, audiences: Collection[str], key: bytes | None, *, once: bool
    ) -> dict[str, Any]:
        """`caller` by this key, by default the registered one: the payload of the token."""
        if not request.authorization.startswith(PREFIX):
            raise _unauthorized("unauthorized", f"send the header Authorization: {PREFIX}TOKEN")
        try:
            payload = payload_of(request.authorization, key, _RegisteredKeys(self.agents))[0]
            self._check(payload, audiences)
            if not check_bound(payload, request, self.now_ms()) or once:
                self.use(payload)
        except DocumentError as error:
            raise _unauthorized(error.code, error.detail) from None
        return payload | {"mid": self.identity(payload["mid"])}

    def use(self, payload: dict[str, Any]) -> None:
        """Raises DocumentError for a token that was used before, in any process."""
        nonce = f"{payload['mid']}\0{payload['jti']}"
        if not self.nonces.use(_SCOPE, nonce, int(payload["exp"] / 1_000) + 1):
            raise DocumentError("replayed", "the token was used before: sign another one for each request")

    def _check(self, payload: dict[str, Any], audiences: Collection[str]) -> None:
        """Raises DocumentError for a token that is not for now and here."""
        now = self.now_ms()
        if payload["exp"] <= now:
            raise DocumentError("expired", f"the token expired at {payload['exp']}")
        if payload["iat"] > now + SKEW_MS:
            raise DocumentError("future-dated", f"the token was issued at {payload['iat']}, in the future")
        if payload["exp"] > now + MAX_TOKEN_MS + SKEW_MS:
            raise DocumentError("malformed", "the token lives for more than an hour")
        if payload["aud"] not in audiences:
            raise DocumentError(
                "audience-mismatch", f"the token is for {payload['aud'][:200]!a}, not {' or '.join(audiences)}"
            )


def request_key(idempotency_key: str | None, payload: dict[str, Any]) -> str:
    """The key of a request of an agent: the digest of its Idempotency-Key, else that of its token."""
    text = f"token:{payload['jti']}" if idempotency_key is None else f"key:{idempotency_key}"
    return sha256(text.encode(errors="surrogatepass")).hexdigest()


def key_conflict(used_for: str) -> RelayRefusedError:
    """The refusal of a key that its client has used for another request: to answer it with that one's result would hide
    that this one is not done."""
    return RelayRefusedError(409, "bad-request", f"the Idempotency-Key was used for {used_for}: use a new one")


class _RegisteredKeys(dict[str, bytes]):
    """The keys of registered agents, read on demand."""

    def __init__(self, agents: RelayAgents) -> None:
        super().__init__()
        self._agents = agents

    def get(self, motebit_id: str, default: Any = None) -> Any:
        """The key of an agent."""
        return self._agents.keys([motebit_id]).get(motebit_id, default)


def _unauthorized(code: str, detail: str) -> RelayRefusedError:
    return RelayRefusedError(401, code, detail)
