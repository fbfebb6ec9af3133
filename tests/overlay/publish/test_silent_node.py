"""Commands that ask a node end after a minute where it accepts requests and answers none."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from indexer.chains import http_client
from indexer.errors import SourceUnavailableError
from overlay.publish import broadcast, coins
from overlay.publish.coins import Coin
from parsers.bitcoin.tx import Outpoint


@pytest.fixture
def silent() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://user:password@127.0.0.1:{listening.getsockname()[1]}"


@pytest.mark.parametrize(
    "work",
    [
        lambda url: broadcast.to_node(url, b"\1"),
        lambda url: coins.from_node(url, "mfWxJ45yp2SFn7UciZyNpvDKrzbhyfKrY8"),
        lambda url: coins.unspent(url, [Coin(Outpoint(bytes(32), 0), 1_000, None)]),
    ],
)
async def test_a_node_that_does_not_answer_is_given_up_after_a_minute(
    silent: str, work: Callable[[str], Awaitable[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert http_client.COMMAND_SECONDS == 60
    monkeypatch.setattr(http_client, "COMMAND_SECONDS", 0.2)
    with pytest.raises(SourceUnavailableError, match=r"has not answered for 0\.2 s") as raised:
        await work(silent)
    assert "password" not in str(raised.value)
