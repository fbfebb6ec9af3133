"""A target of webhooks on this machine, and a context without HTTP that delivers to it when a test says so."""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
import ssl
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trustme
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from indexer.fetcher.on_demand import OnDemandFetcher
from indexer.settings import Settings
from overlay.api.identity_key import IdentityKey
from overlay.api.search_request import from_pairs
from overlay.app.fetching import build_fetcher
from overlay.duplicates.duplicate_index import DuplicateIndex
from overlay.projection.projector import IndexProjector
from overlay.projection.search_index import SearchIndex
from overlay.search.query import Query
from overlay.systems.webhooks.delivery_loop import DeliveryLoop
from overlay.systems.webhooks.matcher import WebhookMatcher
from overlay.systems.webhooks.store import StoredWebhook, StoredWebhooks
from overlay.systems.webhooks.targets import Targets
from tests.clocks import Clock
from tests.indexing import Indexing
from tests.mempool_chain import MempoolChain
from tests.waiting import stop

KEY = "the key of the target".replace(" ", "-")
HOSTS = ("hook.example", "slow.example")
IDENTITY = IdentityKey(ed25519=bytes(range(32)), secp256k1=bytes(range(1, 33)))


class Message(NamedTuple):
    """A message that a target received."""

    host: str
    id: str
    timestamp: int
    signature: str
    raw: bytes

    @property
    def body(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self.raw)
        return answer

    @property
    def changes(self) -> list[tuple[str, str]]:
        """Operation and name, or id where it is gone."""
        return [(one["op"], (one["listing"] or {}).get("name", one["id"])) for one in self.body["changes"]]


def verify(message: Message, key: bytes) -> None:
    """Verify as Standard Webhooks says, by other code than the product's. Raises InvalidSignature."""
    version, _, signature = message.signature.partition(",")
    assert version == "v1a"
    signed = b"%b.%d.%b" % (message.id.encode(), message.timestamp, message.raw)
    Ed25519PublicKey.from_public_bytes(key).verify(b64decode(signature), signed)


class Target:
    """An HTTPS server that answers challenges by KEY, and deliveries with `status`; the slow host once `gate` opens."""

    def __init__(self, folder: Path) -> None:
        authority = trustme.CA()
        self.ca_file = str(folder / "authority.pem")
        authority.cert_pem.write_to_path(self.ca_file)
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(*HOSTS).configure_cert(self._tls)
        self.messages: list[Message] = []
        self.challenges: list[Message] = []
        self.status, self.headers, self.reply = 200, dict[str, str](), "{answer}"
        self.gate = asyncio.Event()

    async def _answer(self, request: web.Request) -> web.Response:
        names = ("webhook-id", "webhook-timestamp", "webhook-signature")
        id_, timestamp, signature = (request.headers[name] for name in names)
        message = Message(request.host, id_, int(timestamp), signature, await request.read())
        if message.body["type"] == "subscription.challenge":
            self.challenges.append(message)
            text = message.body["challenge"]
            answer = b64encode(hmac.new(KEY.encode(), text.encode(), "sha256").digest()).decode()
            text = self.reply.replace("{answer}", answer).replace("{challenge}", text)
            return web.Response(text=text, status=self.status)
        self.messages.append(message)
        if request.host.startswith("slow"):
            await self.gate.wait()
        return web.Response(status=self.status, headers=self.headers)

    async def __aenter__(self) -> Target:
        app = web.Application()
        app.router.add_post("/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._tls).start()
        self.port: int = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self.gate.set()
        await stop(self._runner)

    @property
    def flags(self) -> dict[str, str]:
        """Settings that lead to this server."""
        resolve = " ".join(f"{host}:443=127.0.0.1:{self.port}" for host in HOSTS)
        return {"fetch_resolve": resolve, "fetch_ca_file": self.ca_file}


class WebhookRegistry(MempoolChain):
    """A chain, its index, subscriptions, and the loop that delivers, step by step."""

    def __init__(self, folder: Path, url: str, target: Target) -> None:
        super().__init__()
        self.clock = Clock(1_800_000_000)
        self.indexing = Indexing(url, self.chain)
        self.index = SearchIndex(f"whoosh:{folder}/index")
        self.duplicates = DuplicateIndex(f"{folder}/index")
        self.projector = IndexProjector(self.indexing.store, self.index, self.duplicates)
        self._flags = {"data": str(folder / "data"), **target.flags}
        self.start()

    def start(self) -> None:
        """As a process that has just begun."""
        store = self.indexing.store
        self.subscriptions = StoredWebhooks(store.engine)
        self.targets = Targets(OnDemandFetcher(self._fetcher, self.clock), IDENTITY.sign_ed25519)
        self.matcher = self.new_matcher()
        self.loop = DeliveryLoop(self.subscriptions, self.matcher, self.targets, clock=self.clock, jitter=lambda: 1.0)

    def _fetcher(self, limits: Any) -> Any:
        return build_fetcher(Settings.load(self._flags), limits)

    def new_matcher(self) -> WebhookMatcher:
        def parse(search: str) -> Query | None:
            return from_pairs([tuple(pair.split("=", 1)) for pair in search.split("&")], {"demo": "bsv:regtest"}).query

        store = self.indexing.store
        return WebhookMatcher(store, self.subscriptions, self.index, self.duplicates, parse, lambda: (), self.clock)

    def subscribe(self, search: str = "q=echo", url: str = "https://hook.example/in") -> str:
        """The id of a new subscription."""
        id_ = secrets.token_hex(6)
        subscription = StoredWebhook(
            id=id_, client=id_, url=url, search=search, base="https://registry.example", created_at=1_800_000_000,
            secret_sha256=sha256(b"secret").digest(), since_seq=self.indexing.store.outbox.newest_seq(),
        )  # fmt: skip
        self.subscriptions.add(subscription)
        return id_

    async def look(self) -> None:
        """Read the chain, index it, and queue what there is to report."""
        await self.indexing.refresh()
        self.projector.run()
        while self.matcher.step():
            pass

    async def deliver(self) -> None:
        """Send what is due, once for each subscription."""
        await self.loop.start()
        await self.loop.settle()

    def state(self, id_: str) -> StoredWebhook:
        answer = self.subscriptions.get(id_)
        assert answer is not None
        return answer


@pytest.fixture
async def target(tmp_path: Path) -> AsyncIterator[Target]:
    async with Target(tmp_path) as served:
        yield served


@pytest.fixture
async def registry(tmp_path: Path, database_url: str, target: Target) -> AsyncIterator[WebhookRegistry]:
    """On each database in turn."""
    created = WebhookRegistry(tmp_path, database_url, target)
    with created.indexing:
        yield created
        created.index.close()
        created.duplicates.close()
