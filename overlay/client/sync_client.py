"""The synchronous client: the asynchronous one on an event loop in a separate thread.

One implementation of bounds, retries and streams serves both, and only an event loop can bound the time of a whole
answer from a slow server. Because of the thread it can be used where a loop is running already, for example in a
notebook.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from functools import wraps
from threading import Thread
from typing import Any, Concatenate, ParamSpec, TypeVar

import httpx

from overlay.client.async_client import AsyncOverlayClient
from overlay.client.exchange import ClientLimits

P = ParamSpec("P")
T = TypeVar("T")


def _waiting(
    method: Callable[Concatenate[AsyncOverlayClient, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[OverlayClient, P], T]:
    """The blocking form of an asynchronous method."""

    @wraps(method)
    def wait(client: OverlayClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return client.run(method(client.asynchronous, *args, **kwargs))

    return wait


def _iterating(
    method: Callable[Concatenate[AsyncOverlayClient, P], AsyncGenerator[T]],
) -> Callable[Concatenate[OverlayClient, P], Iterator[T]]:
    """The blocking form of an asynchronous iterator, which is closed when the reader leaves."""
    end: Any = object()

    @wraps(method)
    def iterate(client: OverlayClient, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        values = method(client.asynchronous, *args, **kwargs)

        async def step() -> T:
            return await anext(values, end)

        try:
            while (value := client.run(step())) is not end:
                yield value
        finally:
            client.run(values.aclose())

    return iterate


class OverlayClient:
    """The methods of `AsyncOverlayClient`, each returning when it is done. Use it with `with`, or `close` it."""

    def __init__(
        self, url: str, limits: ClientLimits | None = None, *, token: str = "",
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:  # fmt: skip
        self.asynchronous = AsyncOverlayClient(url, limits, token=token, transport=transport)
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="a2b client", daemon=True)
        self._thread.start()

    def __enter__(self) -> OverlayClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections, and end the thread."""
        if not self._loop.is_closed():
            self.run(self.asynchronous.aclose())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    send = _waiting(AsyncOverlayClient.send)
    ask = _waiting(AsyncOverlayClient.ask)
    search = _waiting(AsyncOverlayClient.search)
    pages = _iterating(AsyncOverlayClient.pages)
    items = _iterating(AsyncOverlayClient.items)
    get = _waiting(AsyncOverlayClient.get)
    card = _waiting(AsyncOverlayClient.card)
    history = _waiting(AsyncOverlayClient.history)
    snippets = _waiting(AsyncOverlayClient.snippets)
    compare = _waiting(AsyncOverlayClient.compare)
    tools = _waiting(AsyncOverlayClient.tools)
    changes = _waiting(AsyncOverlayClient.changes)
    stream = _iterating(AsyncOverlayClient.stream)
    diagnose = _waiting(AsyncOverlayClient.diagnose)
    check = _waiting(AsyncOverlayClient.check)
    findability = _waiting(AsyncOverlayClient.findability)
    ingest = _waiting(AsyncOverlayClient.ingest)
    quote = _waiting(AsyncOverlayClient.quote)
    verify = _waiting(AsyncOverlayClient.verify)
    pay = _waiting(AsyncOverlayClient.pay)
    hire = _waiting(AsyncOverlayClient.hire)
    pay_check = _waiting(AsyncOverlayClient.pay_check)
    payment = _waiting(AsyncOverlayClient.payment)
    rate = _waiting(AsyncOverlayClient.rate)
    status = _waiting(AsyncOverlayClient.status)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of work on the client's event loop."""
        if self._loop.is_closed():
            work.close()
            raise RuntimeError("this client is closed")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise
