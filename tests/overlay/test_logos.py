"""Logos on pages: a picture where there is one, a drawn sign where not, and nothing fetched while somebody waits."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from indexer.store import connect
from indexer.store.logos import Logos as Stored
from overlay.logos import MOST_NOTED, Logos
from overlay.pages.marks import HUES, mark
from overlay.ports import Services
from tests.overlay.calls import TOWER
from tests.overlay.conftest import Serve
from tests.overlay.fakes import with_listing

URL = "https://logos.example/tower.png"
BODY = b"RIFF....WEBP made of a tower"
DIGEST = sha256(BODY).hexdigest()


def soon() -> int:
    """A time, in milliseconds, at which all that was noted by now is due."""
    return int(time.time() * 1000) + 60_000


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[Stored]:
    engine = connect(f"sqlite:///{tmp_path}/logos.db")
    yield Stored(engine)
    engine.dispose()


def with_logo(services: Services, logos: Logos) -> Services:
    listing = services.store.listing(TOWER)
    assert listing is not None
    card = {**json.loads(listing.card_body or b""), "iconUrl": URL}
    changed = replace(listing, card_body=json.dumps(card).encode())
    return replace(with_listing(services, changed), logos=logos)


async def test_a_logo_is_looked_for_and_shown_once_it_is_there(
    serve: Serve, services: Services, stored: Stored
) -> None:
    logos = Logos(stored)
    client = await serve(with_logo(services, logos))
    for path in ("/", f"/listings/{TOWER}"):
        async with client.get(path) as answer:
            page, etag = await answer.text(), answer.headers["ETag"]
        assert "<img" not in page
        assert 'class="logo hue' in page
    assert stored.due(soon(), 10) == [], "nothing is written while somebody waits"
    logos.flush()
    [(_, url)] = stored.due(soon(), 10)
    assert url == URL
    stored.keep(URL, BODY, 10**12)
    logos.flush()
    for path in ("/", f"/listings/{TOWER}"):
        async with client.get(path, headers={"If-None-Match": etag}) as answer:
            assert answer.status == 200
            page = await answer.text()
        assert f'src="/logos/{DIGEST}"' in page
        assert URL not in re.sub(r"<pre.*</pre>", "", page, flags=re.DOTALL)


async def test_a_small_picture_is_served_for_ever_and_as_nothing_else(
    serve: Serve, services: Services, stored: Stored
) -> None:
    stored.want([URL], 1)
    stored.keep(URL, BODY, 2)
    client = await serve(replace(services, logos=Logos(stored)))
    async with client.get(f"/logos/{DIGEST}") as answer:
        assert await answer.read() == BODY
        assert answer.headers["Content-Type"] == "image/webp"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert "immutable" in answer.headers["Cache-Control"]
        assert "sandbox" in answer.headers["Content-Security-Policy"]
    async with client.get(f"/logos/{DIGEST}", headers={"If-None-Match": answer.headers["ETag"]}) as again:
        assert again.status == 304
    for digest in ("00" * 32, "x", DIGEST.upper(), DIGEST[:-1]):
        async with client.get(f"/logos/{digest}") as answer:
            assert answer.status == 404


def test_what_is_looked_for_between_two_notes_is_bounded(stored: Stored) -> None:
    logos = Logos(stored)
    for number in range(MOST_NOTED + 500):
        logos.shown([f"https://logos.example/{number}"])
    logos.flush()
    assert len(stored.due(soon(), 10_000)) == MOST_NOTED


def test_a_sign_is_the_same_for_the_same_listing_and_tells_others_apart() -> None:
    signs = {mark(f"{number:064x}_0", "Tower") for number in range(200)}
    assert len(signs) > 60
    assert {sign.hue for sign in signs} == set(range(HUES))
    assert mark("a_0", "Tower") == mark("a_0", "Tower")
    assert mark("a_0", "  <склад>").letter == "С"
    assert mark("a_0", "\u202e<>").letter == "·"
    assert re.fullmatch(r"[MLAZ0-9, ]+", mark("a_0", "x").path)
