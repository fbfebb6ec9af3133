"""Logos on pages: a picture where there is one, a drawn sign where not, and nothing fetched while somebody waits."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
from sqlalchemy import Engine

from indexer.model import LOGO_BYTES
from indexer.store import connect
from indexer.store.logos import LOGO_CHECK, Logos
from overlay.api.services import AppServices
from overlay.listings.logos import MOST_NOTED, LogoImages
from overlay.web.assets import assets
from overlay.web.cards import HUES, mark, render_card, result
from overlay.web.rendering import WITH_LOGOS
from overlay.web.search_page import SIGN_BYTES
from tests.due_checks import due
from tests.overlay.calls import TOWER, engine_of
from tests.overlay.conftest import Serve
from tests.overlay.fakes import FakeEngine, changed, with_listing

URL = "https://logos.example/tower.png"
BODY = b"RIFF....WEBP made of a tower"
DIGEST = sha256(BODY).hexdigest()


def soon() -> int:
    """A time, in milliseconds, at which all that was noted by now is due."""
    return int(time.time() * 1000) + 60_000


class Stored(Logos):
    """Logos that say what of them is due."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.engine = engine

    def due(self, limit: int = 100) -> list[tuple[int, str]]:
        return due(self.engine, LOGO_CHECK, soon(), limit)


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[Stored]:
    engine = connect(f"sqlite:///{tmp_path}/logos.db")
    yield Stored(engine)
    engine.dispose()


def with_logo(services: AppServices, logos: LogoImages) -> AppServices:
    listing = services.store.listing(TOWER)
    assert listing is not None
    card = {**json.loads(listing.card_body or b""), "iconUrl": URL}
    updated = replace(listing, card_body=json.dumps(card).encode())
    return changed(with_listing(services, updated), logos=logos)


async def test_a_logo_is_looked_for_and_shown_once_it_is_there(
    serve: Serve, services: AppServices, stored: Stored
) -> None:
    logos = LogoImages(stored)
    client = await serve(with_logo(services, logos))
    for path in ("/", f"/listings/{TOWER}"):
        async with client.get(path) as answer:
            page, etag = await answer.text(), answer.headers["ETag"]
        assert "<img" not in page
        assert 'class="logo hue' in page
    assert stored.due() == [], "nothing is written while somebody waits"
    logos.flush()
    [(_, url)] = stored.due()
    assert url == URL
    stored.store(URL, BODY, 10**12)
    logos.flush()
    for path in ("/", f"/listings/{TOWER}"):
        async with client.get(path, headers={"If-None-Match": etag}) as answer:
            assert answer.status == 200
            page = await answer.text()
        assert f'src="/logos/{DIGEST}"' in page
        assert URL not in re.sub(r"<pre.*</pre>", "", page, flags=re.DOTALL)


async def test_a_small_picture_is_served_for_ever_and_as_nothing_else(
    serve: Serve, services: AppServices, stored: Stored
) -> None:
    stored.request([URL], 1)
    stored.store(URL, BODY, 2)
    client = await serve(changed(services, logos=LogoImages(stored)))
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


class EveryLogo(LogoImages):
    """There is a small picture of every logo."""

    def shown(self, urls: Iterable[str]) -> Mapping[str, str]:
        return {url: sha256(url.encode()).hexdigest() for url in urls}


def with_logos(services: AppServices, summary: str) -> AppServices:
    """A hundred listings with this summary and a logo each."""
    first = engine_of(services).documents[0]
    many = []
    for number in range(100):
        id_ = f"{number:064x}_0"
        item = {**json.loads(first.item), "id": id_, "logo": f"https://{number}.example/", "summary": summary}
        many.append(replace(first, id=id_, status="live", item=json.dumps(item).encode()))
    return changed(services, engine=FakeEngine(many), logos=EveryLogo())


LOADED = sum(len(assets()[name].body) for name in ("style.css", "page.js", "search.js", "icon.svg"))


async def loaded(serve: Serve, services: AppServices, path: str) -> tuple[int, int, int]:
    """How many cards and logos a page has, and its bytes with all it loads, each logo being as large as one may be."""
    client = await serve(services)
    async with client.get(path) as answer:
        page = await answer.text()
    logos = page.count('src="/logos/')
    return page.count('class="card"'), logos, len(page.encode()) + LOADED + logos * LOGO_BYTES


@pytest.mark.parametrize(("letter", "long"), [("x", 0), ("é", 100), ("&", 300), ("語", 600)])
async def test_a_page_of_results_with_all_their_logos_fits_into_100_kilobytes(
    serve: Serve, services: AppServices, letter: str, long: int
) -> None:
    cards, logos, size = await loaded(serve, with_logos(services, "Tells the weather of any place."), "/")
    assert (cards, logos) == (20, 20)
    assert size < 100_000
    cards, logos, size = await loaded(serve, with_logos(services, letter * 500), "/?limit=100&tag=" + "%26" * long)
    assert 0 <= logos < cards, "signs in place of the last"
    assert size < 100_000


async def test_where_texts_leave_room_for_some_logos_the_first_have_them(serve: Serve, services: AppServices) -> None:
    cards, logos, size = await loaded(serve, with_logos(services, "Tells the weather."), "/?limit=35")
    assert cards == 35
    assert 5 < logos < 35
    assert WITH_LOGOS - 2 * LOGO_BYTES < size - LOADED <= WITH_LOGOS, "as many as there is room for"


def test_what_is_looked_for_between_two_notes_is_bounded(stored: Stored) -> None:
    logos = LogoImages(stored)
    for number in range(MOST_NOTED + 500):
        logos.shown([f"https://logos.example/{number}"])
    logos.flush()
    assert len(stored.due(10_000)) == MOST_NOTED


def test_a_sign_is_hardly_longer_than_the_address_of_a_picture(services: AppServices) -> None:
    item = json.loads(engine_of(services).documents[0].item)
    shown = result(item, None, None, {})
    pictured = len(render_card(replace(shown, logo=f"/logos/{DIGEST}")).encode())
    for number in range(100):
        signed = replace(shown, mark=mark(f"{number:064x}_0", "\U00020000"))
        assert len(render_card(signed).encode()) <= pictured + SIGN_BYTES


def test_a_sign_is_the_same_for_the_same_listing_and_tells_others_apart() -> None:
    signs = {mark(f"{number:064x}_0", "Tower") for number in range(200)}
    assert len(signs) > 60
    assert {sign.hue for sign in signs} == set(range(HUES))
    assert mark("a_0", "Tower") == mark("a_0", "Tower")
    assert mark("a_0", "  <склад>").letter == "С"
    assert mark("a_0", "\u202e<>").letter == "·"
    assert re.fullmatch(r"[MLAZ0-9, ]+", mark("a_0", "x").path)
