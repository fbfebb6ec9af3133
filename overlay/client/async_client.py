"""The asynchronous client: sends requests within bounds, retries, pages and follows the change stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial, wraps
from itertools import count
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, Unpack

import httpx

from indexer import http_body
from overlay.answers.items import Item
from overlay.answers.pages import RegistryChange, SearchPage
from overlay.client import calls, exchange
from overlay.client.calls import Call, SearchFilters
from overlay.client.errors import NotVerifiedError, RemoteError, RemoteProblemError
from overlay.client.event_stream import ChangeStream, Position
from overlay.client.exchange import ClientLimits

if TYPE_CHECKING:
    from pathlib import Path

    from overlay.answers.verdicts import SubmittedReceipts
    from overlay.client.hire.hiring import Consent, HireOptions
    from overlay.client.hire.journal import Hire
    from overlay.client.hire.policy import Policy
    from overlay.client.hire.wallet import Wallet
    from overlay.client.payment_claims import SignedPayment
    from overlay.publish.coins import Coin
    from overlay.publish.keys import PublisherKey
    from overlay.verify import VerificationReport
    from overlay.verify.domains import Hosts
    from overlay.verify.trusted_source import TrustedSource

P = ParamSpec("P")
T = TypeVar("T")

HEARTBEAT_SECONDS = 45.0
"""How long an open change stream may be silent: an overlay sends a sign of life every 15 s."""

MIN_RETRY_SECONDS, MAX_RETRY_SECONDS = 0.5, 60.0
"""Bounds of the pause before a stream is opened again, which its server names."""

_BROKEN = (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError)


def _sending(
    build: Callable[P, Call[T]],
) -> Callable[Concatenate[AsyncOverlayClient, P], Coroutine[Any, Any, T]]:
    """The method that sends the call of a function in `calls`, with the same parameters."""

    @wraps(build)
    async def method(client: AsyncOverlayClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await client.send(build(*args, **kwargs))

    return method


class AsyncOverlayClient:
    """An overlay at a base URL (with or without `/v1`). Use it with `async with`, or close it with `aclose`.

    Every method raises RemoteError where the overlay cannot be reached or its answer has the wrong form, and a
    RemoteProblemError where it answers with a problem: NotThereError for 404, RefusedError for other 4xx.
    `token` is that of a client with limits of its own (`a2b clients add`), which this overlay alone gets. `transport`
    replaces the network, for tests. Raises RemoteError for what is not a URL, UrlError for another token.
    """

    def __init__(
        self, url: str, limits: ClientLimits | None = None, *, token: str = "",
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:  # fmt: skip
        self.base, self.limits = exchange.base_url(url), limits or ClientLimits()
        headers = exchange.headers(token)
        self._http = httpx.AsyncClient(timeout=self.limits.silence_seconds, headers=headers, transport=transport)

    async def __aenter__(self) -> AsyncOverlayClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def send(self, call: Call[T]) -> T:
        """The answer to a request as its model."""
        return exchange.typed(self._url(call), call, await self.ask(call, is_checked=False))

    async def ask(self, call: Call[Any], *, is_checked: bool = True) -> Any:
        """The answer to a request as JSON, with all its members (a card as bytes). Its shape `is_checked` unless the
        caller judges each member."""
        status, headers, body = await self.fetch(call)
        value = exchange.parse(call, self._url(call), status, headers, body)
        if is_checked:
            exchange.typed(self._url(call), call, value)
        return value

    search = _sending(calls.search)
    get = _sending(calls.get)
    card = _sending(calls.card)
    history = _sending(calls.history)
    snippets = _sending(calls.snippets)
    compare = _sending(calls.compare)
    tools = _sending(calls.tools)
    changes = _sending(calls.changes)
    diagnose = _sending(calls.diagnose)
    check = _sending(calls.check)
    findability = _sending(calls.findability)
    ingest = _sending(calls.ingest)
    quote = _sending(calls.quote)
    pay_check = _sending(calls.pay_check)
    payment = _sending(calls.payment)
    status = _sending(calls.status)

    async def verify(
        self,
        id_: str,
        *,
        trusted: TrustedSource | None = None,
        hosts: Hosts | None = None,
        expected: str | None = None,
    ) -> VerificationReport:
        """Verify a listing and its proof here, without trust in a server: as `overlay.verify.verify`, which names what
        is proved and what is not. Raises also the errors of `trusted` when it does not answer."""
        from overlay.client.listing_source import verified

        return (await verified(partial(self.ask, is_checked=False), id_, trusted, hosts, expected))[0]

    async def pay(
        self,
        id_: str,
        key: PublisherKey,
        coins: Path | list[Coin],
        *,
        most_satoshis: int,
        config_id: str | None = None,
        skill: str | None = None,
        stage: str | None = None,
        refund_address: str | None = None,
        trusted: TrustedSource | None = None,
        against: Sequence[str] = (),
        newest_unchecked: bool = False,
        expected: str | None = None,
    ) -> SignedPayment:
        """The claim that pays an offer of a listing in BSV. The price and its address are read from the card only after
        the card is verified, and shown to be the newest revision: by `trusted`, the user's own source, or by an overlay
        of `against` that names the same one, unless `newest_unchecked`. Only an exchange rate of the overlay itself is
        used, within `most_satoshis`. Nothing is sent.

        `coins` is a file of coins or a list; in it, the coins that the claim spends are replaced by its change before
        this returns. Raises NotVerifiedError, PaymentRefusedError, CoinsError, OSError, and what `trusted` raises.
        """
        from overlay.client import newest
        from overlay.client.listing_source import verified
        from overlay.client.payment_claims import CURRENCY, build_claim, choose_offer, stage_of
        from overlay.publish.coins import opened, replace_spent
        from overlay.publish.transactions import change_of

        if trusted is None and not against and not newest_unchecked:
            raise NotVerifiedError(newest.NEEDED)
        report, source = await verified(partial(self.ask, is_checked=False), id_, trusted, None, expected)
        if report.missing:
            raise NotVerifiedError(f"{report.id} is not proved: {', '.join(report.missing)}", report)
        if source.item["status"] != "live":
            raise NotVerifiedError(f"{report.id} is {source.item['status']}, and only a live listing is paid", report)
        if not newest_unchecked:
            await newest.confirm(report, source, self.base, against, self.ask_at)
        offer = choose_offer(source.offers(), config_id, skill)
        rate = None
        if offer.currency != CURRENCY and CURRENCY in offer.accepted:
            rate = (await self.quote(id_, offer.id, currency=CURRENCY, stage=stage_of(offer, stage))).rate
        with opened(coins) as usable:
            signed = build_claim(
                offer, key, usable, most_satoshis=most_satoshis, stage=stage, rate=rate, refund_address=refund_address
            )
            tx = signed.payment.tx
            replace_spent(usable, {tx_input.prevout for tx_input in tx.inputs}, change_of(tx))
        return signed

    async def rate(
        self,
        id_: str,
        receipt: Mapping[str, Any],
        signing_key: bytes,
        *,
        node: str | None = None,
        bind: str | None = None,
    ) -> SubmittedReceipts:
        """Submit the receipt that an agent gave for paid work, countersigned by the client's Ed25519 key (32 bytes),
        with the proof of its payment: from the client's own node (`http://user:password@host:port`), else from the
        overlay. `bind` is a token by which the agent's key consents, where that is not bound to the listing yet. It
        publishes which address paid the agent, when and how much. Raises DocumentError for a receipt that does not
        verify, NotThereError (NotMinedError of a node) where the payment is in no block yet, SourceError."""
        from overlay.client import ratings

        document, txid = ratings.countersigned(receipt, signing_key), ratings.paid_txid(receipt)
        body: dict[str, Any] = {"kind": "receipt", "document": document, "listing": id_}
        if txid:
            beef = await ratings.beef_from_node(node, txid) if node else (await self.payment(id_, txid)).beef
            body["payment"] = {"beef": beef}
        return await self.send(calls.submit_evidence(body | ({"bind": bind} if bind else {})))

    async def hire(
        self,
        need: str,
        *,
        wallet: Wallet | Path | None = None,
        policy: Policy | None = None,
        input: str | bytes | None = None,  # noqa: A002 - the name outside
        most_satoshis: int | None = None,
        out: Path | None = None,
        agree: Consent | None = None,
        **options: Unpack[HireOptions],
    ) -> Hire:
        """Hire an agent or tool for a need in words, or by its id: choose, verify, consent, pay, call, wait and check
        (docs/hire.md). `input` is what is sent, by default the need. Without `agree`, which asks a person, only the
        policy decides, by default that of the wallet (`A2B_WALLET`). The answer is in the files of the hire.

        Raises HireError, UnreachableError where it can go on (`Hiring.proceed`), and those of `pay`."""
        from overlay.client.hire.call_price import Cap
        from overlay.client.hire.hiring import HireRequest, Hiring, agree_by_policy
        from overlay.client.hire.wallet import Wallet, wallet_at

        held = wallet if isinstance(wallet, Wallet) else wallet_at(wallet)
        hiring = Hiring(self, held, policy=policy, agree=agree or agree_by_policy, **options)
        content = need if input is None else input
        request = HireRequest(
            need=need, content=content.encode() if isinstance(content, str) else content,
            is_text=isinstance(content, str), cap=Cap(most_satoshis), within_policy=agree is None,
            out="" if out is None else str(out),
        )  # fmt: skip
        return await hiring.hire(request)

    async def ask_at(self, url: str, call: Call[Any]) -> Any:
        """The answer of another overlay as JSON, within the same limits."""
        async with AsyncOverlayClient(url, self.limits) as other:
            return await other.ask(call, is_checked=False)

    async def pages(self, words: str = "", **filters: Unpack[SearchFilters]) -> AsyncGenerator[SearchPage]:
        """All pages in order. A listing that changes meanwhile may come twice, and is not left out."""
        call: Call[SearchPage] = calls.search(words, **filters)
        cursor: str | None = None
        while True:
            page = await self.send(call)
            yield page
            if page.next_cursor is None or not page.items:
                return
            if page.next_cursor == cursor:
                raise RemoteError(f"{self._url(call)} answers with the same page again and again")
            cursor = page.next_cursor
            call = calls.next_page(call, cursor)

    async def items(self, words: str = "", **filters: Unpack[SearchFilters]) -> AsyncGenerator[Item]:
        """The items of all pages, each id once."""
        ids: set[str] = set()
        async with aclosing(self.pages(words, **filters)) as pages:
            async for page in pages:
                for item in page.items:
                    if item.id not in ids:
                        ids.add(item.id)
                        yield item

    async def stream(self, since: Position | None = None) -> AsyncGenerator[tuple[Position, RegistryChange]]:
        """Changes as they happen, without end and without gaps, each with the position to continue from after it.
        A connection that breaks is made again; raises after `limits.attempts` in a row that failed."""
        stream, failures = ChangeStream(since), 0
        while True:
            wait: float | None = None
            try:
                async with aclosing(self._connected(stream)) as changes:
                    async for position, change in changes:
                        failures = 0
                        yield position, change
            except (RemoteError, RemoteProblemError) as error:
                failures += 1
                status, wait = getattr(error, "status", None), getattr(error, "retry_after", None)
                if exchange.pause(self.limits, failures, status, wait) is None:
                    raise
            await asyncio.sleep(max(wait or 0.0, MIN_RETRY_SECONDS, min(stream.retry_seconds, MAX_RETRY_SECONDS)))

    async def _connected(self, stream: ChangeStream) -> AsyncGenerator[tuple[Position, RegistryChange]]:
        """The changes of one connection."""
        stream.connect()
        call = calls.stream()
        headers = {"Accept": "text/event-stream"}
        if stream.position:
            headers["Last-Event-ID"] = str(stream.position)
        try:
            async with self._open(call, headers, HEARTBEAT_SECONDS) as response:
                if response.headers.get("content-type", "").partition(";")[0].strip() != "text/event-stream":
                    body = await self._body(response)
                    exchange.parse(call, self._url(call), response.status_code, response.headers, body)
                    raise RemoteError(f"{self._url(call)} answers {response.status_code}, and not with events")
                http_body.check_uncoded(response.headers.multi_items())
                async for chunk in response.aiter_raw():
                    for change in stream.feed(chunk):
                        yield Position(change.epoch, change.seq), change
        except (httpx.HTTPError, http_body.BodyError) as error:
            raise RemoteError(f"{self._url(call)} breaks off: {_reason(error)}") from None

    async def fetch(self, call: Call[Any]) -> tuple[int, httpx.Headers, bytes]:
        """Status, headers and body, after as many attempts as the limits allow. Raises RemoteError."""
        url = self._url(call)
        for attempt in count(1):
            try:
                status, headers, body = await self._once(call)
                seconds = exchange.pause(self.limits, attempt, status, exchange.wait_of(headers))
                if seconds is None:
                    return status, headers, body
            except _BROKEN as error:
                seconds = exchange.pause(self.limits, attempt, None, None)
                if seconds is None:
                    raise RemoteError(f"cannot query {url}: {_reason(error)}") from None
            except http_body.BodyError as error:
                raise RemoteError(f"{url} answers with {error}") from None
            except TimeoutError:
                raise RemoteError(f"{url} does not answer within {self.limits.whole_seconds:g} s") from None
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                raise RemoteError(f"cannot query {url}: {_reason(error)}") from None
            await asyncio.sleep(seconds)
        raise AssertionError

    async def _once(self, call: Call[Any]) -> tuple[int, httpx.Headers, bytes]:
        async with asyncio.timeout(self.limits.whole_seconds), self._open(call) as response:
            return response.status_code, response.headers, await self._body(response)

    async def _body(self, response: httpx.Response) -> bytes:
        bounds = http_body.Bounds(self.limits.answer_bytes)
        return await http_body.read(response.aiter_raw(), response.headers.multi_items(), bounds)

    @asynccontextmanager
    async def _open(
        self, call: Call[Any], headers: dict[str, str] | None = None, read_seconds: float | None = None
    ) -> AsyncIterator[httpx.Response]:
        """An open response. Redirects are followed here: httpx would read, and decode, their bodies without a bound."""
        timeout = httpx.Timeout(self.limits.silence_seconds, read=read_seconds or self.limits.silence_seconds)
        call_headers = dict(call.headers) | ({} if call.content is None else {"Content-Type": "application/json"})
        request = self._http.build_request(
            call.method, self._url(call), headers=call_headers | (headers or {}), params=list(call.parameters) or None,
            content=call.content, timeout=timeout,
        )  # fmt: skip
        for _ in range(self.limits.redirects + 1):
            response = await self._http.send(request, stream=True)
            try:
                if response.next_request is None:
                    yield response
                    return
                exchange.check_redirect(str(request.url), str(response.next_request.url))
                request = response.next_request
            finally:
                await response.aclose()
        raise RemoteError(f"cannot query {self._url(call)}: more than {self.limits.redirects} redirects")

    def _url(self, call: Call[Any]) -> str:
        return f"{self.base}{call.path}"


def _reason(error: Exception) -> str:
    reason = str(error) or type(error).__name__
    return f"{reason}; is an overlay running there?" if isinstance(error, httpx.ConnectError) else reason
