"""Cards that publishers name by a URL: fetched safely, up to the size that a card may have."""

from __future__ import annotations

from pathlib import Path

import pytest

from indexer.fetcher.reasons import FetchError
from indexer.settings import Settings
from overlay.app.fetching import build_card_fetcher
from tests.https import Https

LARGEST = 1 << 20


@pytest.mark.parametrize(("size", "code"), [(LARGEST, ""), (LARGEST + 1, "fetch-size")])
async def test_a_served_card_has_at_most_a_mebibyte(tmp_path: Path, size: int, code: str) -> None:
    with Https(tmp_path, "a.example") as server:
        server.bodies["a.example", "/card.json"] = b"x" * size
        settings = Settings.load(
            {"data": str(tmp_path), "fetch_resolve": server.resolve, "fetch_ca_file": server.ca_file}
        )
        cards = build_card_fetcher(settings)
        assert cards is not None
        if not code:
            assert len(await cards.get("https://a.example/card.json")) == size
            return
        with pytest.raises(FetchError) as refused:
            await cards.get("https://a.example/card.json")
        assert refused.value.refusal.code == code


@pytest.mark.parametrize(
    "url",
    ["http://a.example/", "https://a.example:8443/", "https://127.0.0.1/", "https://localhost/", "file:///etc/passwd",
     "https://user@a.example/", ""],
)  # fmt: skip
async def test_other_urls_are_refused_before_a_request(tmp_path: Path, url: str) -> None:
    cards = build_card_fetcher(Settings.load({"data": str(tmp_path), "chains": "bsv=files:/nowhere"}))
    assert cards is not None
    with pytest.raises(FetchError):
        await cards.get(url)
