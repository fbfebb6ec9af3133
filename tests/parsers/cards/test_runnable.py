"""A tool with a command and a listing with a public URL can be used; a placeholder or a private host cannot."""

from __future__ import annotations

import pytest

from parsers.cards.usage import is_runnable


@pytest.mark.parametrize(
    ("command", "url", "expected"),
    [
        ("npx", "", True),
        ("", "https://mcp.example/sse", True),
        ("", "http://agents.example", True),
        ("", "http://203.0.113.7:8000/mcp", True),
        ("", "https://[2001:db8::1]/mcp", True),
        ("", "ftp://203.0.113.7/", False),
        ("", "http://10.0.0.7/mcp", False),
        ("", "", False),
        ("", "http://localhost:8080/mcp", False),
        ("", "http://127.0.0.1/a2a", False),
        ("", "https://agent.internal/", False),
        ("", "https://<your-host>/mcp", False),
        ("", "https://your host.example/mcp", False),
        ("", "https://my-agent/mcp", False),
        ("", "ipfs://bafy", False),
        ("", "wss://agents.example", False),
    ],
)
def test_what_can_be_used_as_it_is(command: str, url: str, *, expected: bool) -> None:
    assert is_runnable(command, url) is expected
