"""Debian's Chromium, driven by Playwright, before a registry of its own. What goes wrong in a page fails the test."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from tests.browser.world import World, served
from tests.conftest import ROOT, missing
from tests.ports import free_port
from tests.waiting import PATIENCE

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

AXE = ROOT / "tests" / "browser" / "node_modules" / "axe-core" / "axe.min.js"

WALLET_PORT = 3_321
"""The port of a BRC-100 wallet on the computer of a visitor."""

HEARING = """
addEventListener("securitypolicyviolation", (event) => console.error(`refused: ${event.violatedDirective}`));
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One event loop for all tests here: the browser and the registry live in it."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.asyncio(loop_scope="package"), append=False)


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    async with served(tmp_path_factory.mktemp("world")) as created:
        yield created


@pytest.fixture(scope="package")
def wallet_port() -> int:
    """The port to which the browser's requests to a wallet on this computer go: tests run side by side."""
    return free_port()


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def browser(wallet_port: int) -> AsyncIterator[Browser]:
    chromium = shutil.which("chromium")
    if chromium is None:
        missing("chromium (Debian's package)")
    if find_spec("playwright") is None:
        missing("playwright (PyPI)")
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        wallet = f"--host-resolver-rules=MAP localhost:{WALLET_PORT} 127.0.0.1:{wallet_port}"
        launched = await playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage", wallet]
        )
        yield launched
        await launched.close()


@dataclass
class Tab:
    """A page of the browser, what it asked for, and everything it complained about. It may call `others` besides the
    registry."""

    page: Page
    url: str
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    expected: tuple[str, ...] = ()
    others: tuple[str, ...] = ()

    async def go(self, path: str, status: int = 200) -> Page:
        """Open a path of the registry."""
        answer = await self.page.goto(f"{self.url}{path}")
        assert answer is not None
        assert answer.status == status
        return self.page

    def hear(self) -> None:
        """Keep what the page asks for and complains about."""
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", self._logged)
        self.page.on("dialog", lambda dialog: self.complaints.append(f"a dialog: {dialog.message}"))

    def _logged(self, message: Any) -> None:
        if message.type in ("error", "warning") and not any(word in message.text for word in self.expected):
            self.complaints.append(f"{message.text} {message.location['url']}")

    def check(self) -> None:
        """Nothing was complained about, and nobody else was asked for anything."""
        assert self.complaints == []
        here = urlsplit(self.url).netloc
        assert {urlsplit(url).netloc for url in self.requests} <= {here, "", *self.others}


Open = Callable[..., Awaitable[Tab]]


@pytest_asyncio.fixture(loop_scope="package")
async def tab(world: World, browser: Browser) -> AsyncIterator[Open]:
    """Open tabs, each in a context of its own (`java_script_enabled`, `viewport`, `color_scheme`, ... as Playwright has
    them); in the end none may have complained."""
    async with AsyncExitStack() as stack:
        tabs: list[Tab] = []

        async def opened(*, expected: tuple[str, ...] = (), others: tuple[str, ...] = (), **context: Any) -> Tab:
            created = await browser.new_context(**context)
            stack.push_async_callback(created.close)
            created.set_default_timeout(PATIENCE * 1_000)
            await created.add_init_script(HEARING)
            result = Tab(await created.new_page(), world.url, expected=expected, others=others)
            result.hear()
            tabs.append(result)
            return result

        yield opened
        for item in tabs:
            item.check()


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core, as `npm ci --prefix tests/browser` installs it."""
    if not AXE.exists():
        missing("what `npm ci --prefix tests/browser` installs (axe-core)")
    return AXE.read_text()
