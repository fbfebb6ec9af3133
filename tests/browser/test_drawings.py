"""The drawings of the documents, rendered as GitHub renders them: by Mermaid, in a browser."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from tests.conftest import ROOT, missing
from tests.test_docs import DOCUMENTS, name_of
from tests.test_drawings import drawings

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

MERMAID = ROOT / "tests/browser/node_modules/@mermaid-js/tiny/dist/mermaid.tiny.js"

RENDERED = """async (text) => {
  mermaid.initialize({ startOnLoad: false });
  const { svg, diagramType } = await mermaid.render("drawing", text);
  document.body.innerHTML = svg;
  const drawn = document.querySelector("svg");
  return [diagramType, drawn.querySelectorAll(".node, .actor").length, drawn.viewBox.baseVal.width];
}"""

WIDEST = 1_400
"""Units of a drawing's width, of which GitHub shows some 900 pixels: letters of 16 units have 10 pixels then."""

DRAWN = [(path, text) for path in DOCUMENTS for text in drawings(path)]


@pytest_asyncio.fixture(loop_scope="package")
async def page(browser: Browser) -> AsyncIterator[Page]:
    if not MERMAID.exists():
        missing("what `npm ci --prefix tests/browser` installs (@mermaid-js/tiny)")
    created = await browser.new_page()
    await created.set_content("<!DOCTYPE html><body></body>")
    await created.add_script_tag(path=MERMAID)
    yield created
    await created.close()


@pytest.mark.parametrize(("path", "text"), DRAWN, ids=[f"{name_of(path)}-{n}" for n, (path, _) in enumerate(DRAWN)])
async def test_a_drawing_renders(page: Page, path: Path, text: str) -> None:
    kind, boxes, width = await page.evaluate(RENDERED, text)
    assert kind in ("flowchart-v2", "sequence"), path
    assert boxes >= 4
    assert width <= WIDEST


async def test_a_broken_drawing_does_not(page: Page) -> None:
    for text in ("flowchart TB\n    a --> ", "sequenceDiagram\n    a->>b", "no drawing"):
        with pytest.raises(Exception, match=r"(Parse error|No diagram type)"):
            await page.evaluate(RENDERED, text)
