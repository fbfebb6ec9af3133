"""Services of systems that the core and other systems use: a key is missing where the system is not installed."""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from aiohttp import web

if TYPE_CHECKING:
    from indexer.chains.node.payment_node import PaymentNode
    from parsers.bitcoin.tx import Transaction
    from parsers.cards.offers import Offer
    from parsers.claims.motebit.settlement import RelayAgent
    from parsers.claims.motebit.trust_graph import EdgePair, TrustEdge


class Reservations(Protocol):
    """The coins that pay this server, by chain (`coin:network`): a transaction pays once, whatever for. Raises
    StoreError."""

    def hold(self, chain: str, tx: Transaction) -> bool:
        """Hold the coins that a transaction spends; False where another one holds them, or where it has paid for a
        task."""
        ...

    def release(self, chain: str, txid: bytes) -> None:
        """Hold it no more."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Payments:
    """The nodes that check and send payments, by ticker, this server's own prices, as JSON, and as the offers that are
    paid for requests beyond a limit, and the coins that its payments spend."""

    nodes: Mapping[str, PaymentNode] = field(default_factory=dict)
    prices: Sequence[Any] = ()
    offers: Sequence[Offer] = ()
    reservations: Reservations | None = None


class Accepted(Protocol):
    """The stored records of a document."""

    def as_json(self) -> dict[str, Any]:
        """The answer of `POST /v1/evidence`."""
        ...


class Intake(Protocol):
    """Takes receipts."""

    def submit(self, kind: str, document: Any, *, listing: str | None = None) -> Accepted:
        """Store the receipts in a document. Raises DocumentError, StoreError."""
        ...


class Verifier(Protocol):
    """Checks capability tokens in messages of MCP."""

    def take_token(
        self, request: web.Request, message: Any, document: bytes, tools: Mapping[str, bool]
    ) -> Awaitable[bytes | web.Response]:
        """The message in a document, with its token checked and removed; or the response where the token is refused, or
        where the message is about tokens. `tools` maps each tool to whether it acts on a listing."""
        ...

    def is_visible(self, request: web.Request, tool: str, on_listing: bool, /) -> bool:
        """Whether a tool is shown to the holder of a request's token."""
        ...


class TrustReader(Protocol):
    """The trust between agents, by the receipts of this server."""

    def edges(self, observers: Collection[str], workers: Collection[str]) -> dict[EdgePair, TrustEdge]:
        """Edges from these observers to these workers (keys in hex), by pair. Raises StoreError."""
        ...

    def blocked(self) -> set[str]:
        """The workers that the operator blocks for everybody."""
        ...


class RegisteredAgents(Protocol):
    """The agents that are registered with a relay."""

    def agent(self, motebit_id: str) -> RelayAgent | None:
        """An agent, also one with an expired registration."""
        ...

    def keys(self, motebit_ids: Collection[str]) -> dict[str, bytes]:
        """The public keys (32 bytes) of the registered agents, of those passed in."""
        ...

    def live(self, now: int, limit: int, capability: str | None = None) -> list[RelayAgent]:
        """Agents with a current registration, and with a capability where one is named."""
        ...


class SettledTasks(Protocol):
    """The tasks that a relay settled."""

    def trust(self, agents: Collection[str]) -> dict[tuple[str, str], TrustEdge]:
        """Edges among these agents, by submitter and worker."""
        ...


class AgentRelay(Protocol):
    """The agents that are registered with the relay of this server, and the tasks that it settled."""

    @property
    def agents(self) -> RegisteredAgents:
        """The registered agents."""
        ...

    @property
    def tasks(self) -> SettledTasks:
        """The tasks."""
        ...

    def now(self) -> int:
        """Seconds since 1970."""
        ...

    def identity(self, text: str) -> str:
        """The identity that a text names."""
        ...

    def use(self, payload: dict[str, Any]) -> None:
        """Use the nonce of a token up. Raises DocumentError where it was used."""
        ...


PAYMENTS: web.AppKey[Payments] = web.AppKey("payments", Payments)
RECEIPTS: web.AppKey[Intake] = web.AppKey("receipt intake", Intake)
VERIFIER: web.AppKey[Verifier] = web.AppKey("verifier", Verifier)
TRUST: web.AppKey[TrustReader] = web.AppKey("trust", TrustReader)
IDENTITY_FILE: web.AppKey[str] = web.AppKey("identity file", str)
AGENT_RELAY: web.AppKey[AgentRelay] = web.AppKey("agent relay", AgentRelay)
