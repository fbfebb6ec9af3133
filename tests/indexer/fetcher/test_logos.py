"""Logos: strangers' pictures become small ones drawn anew, only those that somebody looked for, and only so many."""

from __future__ import annotations

import base64
import random
import struct
import zlib
from hashlib import sha256
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from sqlalchemy import Engine

from indexer.fetcher.card_fetcher import CardFetcher
from indexer.fetcher.dns import TxtRecords
from indexer.fetcher.fetch_loop import FetchLoop
from indexer.fetcher.host_names import DomainVerifier
from indexer.fetcher.logo_fetcher import LogoFetcher
from indexer.fetcher.reasons import FetchError
from indexer.fetcher.thumbnail import MOST_SIDE, SIDE
from indexer.model import LOGO_BYTES
from indexer.store import Store, Writer
from indexer.store.checks import CheckQueries
from indexer.store.logos import DAY, LOGO_CHECK, REFETCH, Logos, check_name, is_fetchable
from parsers.cards.data_uri import image_type
from tests.databases import store
from tests.hostile import Hostile, Net, answer, authority, net, ok, raw, server
from tests.pointer_facts import NOW, Clock, clock, writer

LOGO = "https://agent.example/logo.png"

__all__ = ["authority", "clock", "net", "server", "store", "writer"]


def picture(form: str = "PNG", size: tuple[int, int] = (300, 200), **more: object) -> bytes:
    bytes_io = BytesIO()
    Image.linear_gradient("L").resize(size).convert("RGB").save(bytes_io, form, **more)
    return bytes_io.getvalue()


def bomb(side: int = 60_000) -> bytes:
    """A PNG that says it is very large, as it may without being so."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    )


SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'


class QueuedLogos(Logos):
    """Logos that say what of them is due."""

    def __init__(self, engine: Engine, limit: int) -> None:
        super().__init__(engine, limit)
        self.queue = CheckQueries(engine)

    def due(self, now: int) -> list[tuple[int, str]]:
        return [(since, target) for since, _, target in self.queue.due(now, 100, kind=LOGO_CHECK)]


@pytest.fixture
def logos(store: Store) -> QueuedLogos:
    return QueuedLogos(store.engine, limit=20)


@pytest.fixture
def logo_fetcher(net: Net, clock: Clock, logos: QueuedLogos) -> LogoFetcher:
    return LogoFetcher(net.fetcher(clock=clock), logos)


@pytest.fixture
def painter() -> LogoFetcher:
    """A logo fetcher that neither fetches nor keeps."""
    return LogoFetcher(None, None)  # type: ignore[arg-type]


# -- what becomes of a picture


@pytest.mark.parametrize("form", ["PNG", "JPEG", "GIF", "WEBP"])
async def test_a_picture_becomes_a_small_one(painter: LogoFetcher, form: str) -> None:
    small = await painter.small(picture(form))
    with Image.open(BytesIO(small)) as created:
        assert created.format == "WEBP"
        assert created.size == (SIDE, round(SIDE * 2 / 3))
    assert len(small) < 6_000


def noise(mode: str) -> Image.Image:
    return Image.frombytes(mode, (SIDE, SIDE), random.Random(7).randbytes(SIDE * SIDE * len(mode)))


def colours(side: int = 256) -> Image.Image:
    """Red from left to right, green downwards, blue against both."""
    down = Image.linear_gradient("L").resize((side, side))
    return Image.merge("RGB", (down.rotate(90), down, down.rotate(180)))


def photograph() -> Image.Image:
    """A picture that is hard to compress without being noise: many blurred spots of all colours."""
    return noise("RGB").resize((44, 44)).resize((256, 256))


@pytest.mark.parametrize(
    "drawn",
    [noise("RGB"), noise("RGBA"), colours(), photograph(), noise("RGB").resize((400, 100), Image.Resampling.NEAREST)],
    ids=["noise", "noise in opacity", "colours", "photograph", "wide noise"],
)
async def test_a_small_picture_has_only_so_many_bytes_whatever_it_shows(
    painter: LogoFetcher, drawn: Image.Image
) -> None:
    body = BytesIO()
    drawn.save(body, "PNG")
    small = await painter.small(body.getvalue())
    assert len(small) <= LOGO_BYTES
    with Image.open(BytesIO(small)) as created:
        assert created.format == "WEBP"
        assert 24 <= created.width <= SIDE
        assert created.width / created.height == drawn.width / drawn.height


async def test_colours_stay_what_they_are(painter: LogoFetcher) -> None:
    body = BytesIO()
    colours().save(body, "PNG")
    with Image.open(BytesIO(await painter.small(body.getvalue()))) as created:
        assert created.size == (SIDE, SIDE)
        for position in ((20, 20), (44, 44), (70, 20), (20, 70)):
            expected = colours().resize((SIDE, SIDE)).getpixel(position)
            result = created.convert("RGB").getpixel(position)
            assert isinstance(expected, tuple)
            assert isinstance(result, tuple)
            assert all(abs(one - other) < 24 for one, other in zip(expected, result, strict=True)), (
                position,
                expected,
                result,
            )


async def test_nothing_but_pixels_goes_on(painter: LogoFetcher) -> None:
    exif = Image.Exif()
    exif[0x010E] = "<script>alert('exif')</script>"
    dressed = picture("JPEG", exif=exif, comment=b"<script>alert('comment')</script>") + b"<script>alert(1)</script>"
    assert dressed.count(b"<script>") == 3
    small = await painter.small(dressed)
    assert b"script" not in small
    with Image.open(BytesIO(small)) as created:
        assert not created.getexif()
        assert "icc_profile" not in created.info


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (SVG, "fetch-picture"),
        (b"", "fetch-picture"),
        (b"<!DOCTYPE html>", "fetch-picture"),
        (b"BM" + bytes(100), "fetch-picture"),
        (picture()[:200], "fetch-picture-broken"),
        (b"GIF89a" + bytes(50), "fetch-picture-broken"),
        (bomb(), "fetch-picture-broken"),
        (picture(size=(MOST_SIDE + 1, 2)), "fetch-picture-broken"),
    ],
    ids=["svg", "nothing", "html", "bmp", "cut", "made-up", "bomb", "wide"],
)
async def test_what_is_no_picture_stays_outside(painter: LogoFetcher, body: bytes, code: str) -> None:
    with pytest.raises(FetchError) as caught:
        await painter.small(body)
    assert caught.value.refusal.code == code


@given(st.binary(max_size=40))
def test_any_bytes_are_a_kind_of_picture_or_none(body: bytes) -> None:
    assert image_type(body) in (None, "image/png", "image/jpeg", "image/gif", "image/webp")
    assert image_type(b"<svg" + body) is None


# -- fetching


async def refused(logo_fetcher: LogoFetcher, url: str) -> str:
    """Why a logo is not fetched, which is stored as the loop does."""
    with pytest.raises(FetchError) as error:
        await logo_fetcher.check(url, NOW)
    await logo_fetcher.fail(url, error.value.refusal.code, NOW)
    return error.value.refusal.code


async def test_a_logo_is_fetched_shown_and_looked_at_again(
    server: Hostile, logo_fetcher: LogoFetcher, logos: QueuedLogos
) -> None:
    server.say("/logo.png", ok(picture()))
    logos.request([LOGO], NOW)
    assert (logos.thumbnails([LOGO]), logos.newest()) == ({}, 0)
    assert await logo_fetcher.check(LOGO, NOW) == (0, None)
    [digest] = logos.thumbnails([LOGO, "https://other.example/"]).values()
    small = logos.body(bytes.fromhex(digest))
    assert small is not None
    assert sha256(small).hexdigest() == digest
    assert logos.newest() == NOW
    assert logos.due(NOW + REFETCH - 1) == []
    assert logos.due(NOW + REFETCH) == [(NOW + REFETCH, LOGO)]
    server.say("/logo.png", ok(SVG))
    with pytest.raises(FetchError):
        await logo_fetcher.check(LOGO, NOW + REFETCH)
    await logo_fetcher.fail(LOGO, "fetch-picture", NOW + REFETCH)
    assert logos.thumbnails([LOGO]) == {LOGO: digest}, "what was good stays"
    server.say("/logo.png", ok(picture("GIF", (20, 20))))
    await logo_fetcher.check(LOGO, NOW + 2 * REFETCH)
    assert logos.thumbnails([LOGO])[LOGO] != digest
    assert logos.body(bytes.fromhex(digest)) is None


async def test_a_logo_that_is_not_served_is_requested_ever_less_often(
    server: Hostile, logo_fetcher: LogoFetcher, logos: Logos
) -> None:
    server.say("/logo.png", raw(answer("404 Not Found")))
    logos.request([LOGO], NOW)
    for pause in (DAY // 24, DAY // 12, DAY // 6):
        assert await refused(logo_fetcher, LOGO) == "fetch-missing"
        assert logos.due(NOW + REFETCH) == [(NOW + pause, LOGO)]
    assert logos.thumbnails([LOGO]) == {}


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("https://127.0.0.1/logo.png", "fetch-address"),
        ("https://agent.example:8443/logo.png", "fetch-port"),
        ("https://user@agent.example/logo.png", "fetch-credentials"),
        ("https://", "fetch-name"),
    ],
)
async def test_a_logo_leads_nowhere_that_a_card_may_not(
    server: Hostile, logo_fetcher: LogoFetcher, url: str, code: str
) -> None:
    logo_fetcher.logos.request([url], NOW)
    assert await refused(logo_fetcher, url) == code
    assert server.requests == []


async def test_a_logo_inside_a_card_is_requested_of_nobody(
    server: Hostile, logo_fetcher: LogoFetcher, logos: QueuedLogos
) -> None:
    url = "data:image/png;base64," + base64.b64encode(picture(size=(40, 40))).decode()
    logo_fetcher.logos.request([url], NOW)
    [(_, name)] = logos.due(NOW)
    assert await logo_fetcher.check(name, NOW) == (0, None)
    assert logo_fetcher.logos.thumbnails([url])
    svg = "data:image/svg+xml;base64," + base64.b64encode(SVG).decode()
    logo_fetcher.logos.request([svg], NOW)
    assert await refused(logo_fetcher, check_name(svg)) == "fetch-picture"
    assert server.requests == []


async def test_the_loop_fetches_what_somebody_looked_for(
    server: Hostile, net: Net, logo_fetcher: LogoFetcher, store: Store, writer: Writer, clock: Clock
) -> None:
    server.say("/logo.png", ok(picture()))
    fetcher = net.fetcher(clock=clock)
    badger = DomainVerifier(fetcher, TxtRecords([]))
    loop = FetchLoop(store, writer, CardFetcher(fetcher), badger, checks=[logo_fetcher], clock=clock, ticking=clock)
    await loop.look()
    assert len(loop.schedule) == 0
    logo_fetcher.logos.request([LOGO, "https://agent.example/gone.png"], clock.now)
    clock.tick(2_000)
    await loop.look()
    loop.start()
    await loop.settle()
    loop.start()
    await loop.settle()
    assert set(logo_fetcher.logos.thumbnails([LOGO, "https://agent.example/gone.png"])) == {LOGO}
    assert sorted(server.paths()) == ["/gone.png", "/logo.png"]


# -- what is kept


def test_only_so_many_are_kept_and_what_nobody_looks_for_goes_first(logos: QueuedLogos) -> None:
    urls = [f"https://agent.example/{number}" for number in range(30)]
    for number, url in enumerate(urls):
        logos.request([url], NOW + number)
    stored = [url for _, url in logos.due(NOW + DAY)]
    assert sorted(stored) == sorted(urls[10:])
    logos.request([urls[10]], NOW + 2 * DAY)
    logos.request(["https://agent.example/new"], NOW + 2 * DAY)
    stored = [url for _, url in logos.due(NOW + 2 * DAY)]
    assert urls[10] in stored
    assert urls[11] not in stored


def test_what_nobody_looked_for_lately_is_not_fetched_again(logos: QueuedLogos) -> None:
    logos.request([LOGO], NOW)
    logos.store(LOGO, b"x", NOW)
    assert logos.due(NOW + REFETCH) != []
    logos.store(LOGO, b"x", NOW + REFETCH)
    assert logos.due(NOW + 9 * REFETCH) == []
    logos.request([LOGO], NOW + 2 * REFETCH)
    assert logos.due(NOW + 2 * REFETCH) != []
    logos.fail(LOGO, "fetch-missing", NOW + 3 * REFETCH)
    assert logos.due(NOW + 9 * REFETCH) == []


def test_due_logos_are_listed_in_pages(logos: QueuedLogos) -> None:
    urls = [f"https://agent.example/{number}" for number in range(7)]
    logos.request(urls, NOW)
    first = logos.queue.due(NOW, 4)
    assert [one.target for one in first + logos.queue.due(NOW, 4, first[-1])] == urls


@pytest.mark.parametrize(
    "url",
    ["", "http://a.example/x", "javascript:alert(1)", "data:text/html,x", "ftp://a", "https://a/\n", "https://a/é",
     "https://a/" + "x" * 2_048, "data:image/png;base64," + "A" * 9_000, "//a.example"],
)  # fmt: skip
def test_what_cannot_be_fetched_is_not_even_noted(logos: QueuedLogos, url: str) -> None:
    assert not is_fetchable(url)
    logos.request([url], NOW)
    assert logos.due(NOW) == []
    assert logos.thumbnails([url]) == {}
