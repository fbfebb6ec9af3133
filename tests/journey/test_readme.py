"""The questions of the README have the answers that it prints, on the packaged sample chain; the examples of the home
page find what they say, and every link between pages works."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import parse_qs, urljoin, urlsplit
from urllib.request import Request, urlopen

import pytest

from overlay.web.search_page import EXAMPLES
from tests import route_examples
from tests.conftest import ROOT
from tests.running import Running

QUESTIONS = re.findall(
    r"<!-- question(?:: (\d))? -->\n```sh\n\.venv/bin/a2b ([^\n]*)\n```\n\n```\n(.*?)\n```\n",
    (ROOT / "README.md").read_text(),
    re.DOTALL,
)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """`a2b up`, which has indexed the sample chain."""
    folder = tmp_path_factory.mktemp("readme")
    with Running("up", "--port", "0", cwd=folder) as running:
        running.until_ready()
        running.until(lambda: running.get("/v1/status")["index"]["behind"] == 0)
        yield running


@pytest.fixture
def folder(running: Running) -> Path:
    """The folder in which `a2b up` runs."""
    return running.cwd


def test_the_examples_of_the_api_are_what_the_sample_chain_answers(running: Running) -> None:
    examples = json.loads(route_examples.FILE.read_text())
    requests = route_examples.requests()
    assert {name: (example["request"], example["body"]) for name, example in examples.items()} == requests
    for name, example in examples.items():
        status, value = route_examples.answer(running.url, example["request"], example["body"])
        assert (name, status) == (name, example["status"])
        assert route_examples.agrees(example["answer"], value), (name, example["answer"], value)


def test_there_are_questions() -> None:
    assert len(QUESTIONS) == 4


def test_the_question_over_http_has_its_answer(running: Running) -> None:
    url, answer = re.findall(
        r"```sh\ncurl -s 'http://127\.0\.0\.1:8080(/.*?)'\n```\n\n```\n(.*?)…\n```\n", (ROOT / "README.md").read_text()
    )[0]
    with urlopen(f"{running.url}{url}") as response:  # noqa: S310 - this machine
        assert response.read().decode().startswith(answer)


@pytest.mark.parametrize(
    ("code", "command", "answer"), QUESTIONS, ids=[command.split()[0] for _, command, _ in QUESTIONS]
)
def test_a_question_has_its_answer(folder: Path, code: str, command: str, answer: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "overlay", *shlex.split(command)], cwd=folder, capture_output=True, text=True,
        env={
            "PYTHONPATH": str(ROOT),
            "PYTHONIOENCODING": "utf-8",
            "NUMBA_CACHE_DIR": os.environ["NUMBA_CACHE_DIR"],  # else it compiles the kernels again
        },
    )  # fmt: skip
    assert done.returncode == int(code or 0), done.stderr
    assert done.stdout == f"{answer}\n"


@pytest.mark.parametrize(("words", "address"), EXAMPLES)
def test_an_example_of_the_home_page_finds_what_it_says(running: Running, words: str, address: str) -> None:
    items = running.get(f"/v1/search{address.removeprefix('/')}")["items"]
    assert items
    if "tools" in words:
        assert {item["type"] for item in items} == {"tool"}
    if "agents" in words:
        assert {item["type"] for item in items} == {"agent"}
    if "USD" in words:
        assert all(float(item["cheapest"]["amount"]) <= 1 for item in items)
    elif term := parse_qs(urlsplit(address).query)["q"][0].split()[-1]:
        first = json.dumps([items[0][name] for name in ("name", "description", "tags", "skills")]).lower()
        assert term in first


class Links(HTMLParser):
    """The addresses that a page links to, and the ids of its elements."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.targets, self.ids = set[str](), set[str]()
        self.feed(page)

    def handle_starttag(self, _: str, attrs: list[tuple[str, str | None]]) -> None:
        members = dict(attrs)
        self.ids |= {members["id"] or ""} if "id" in members else set()
        for name in ("href", "src"):
            if target := members.get(name):
                self.targets.add(target)


def test_every_link_between_pages_works(running: Running) -> None:
    """All pages are read that links lead to, of searches and listings some; every link on them has an answer."""
    pages, waiting, broken, searches = dict[str, Links](), ["/"], list[str](), 0
    anchors: set[tuple[str, str, str]] = set()
    while waiting:
        address = waiting.pop(0)
        if address in pages:
            continue
        pages[address] = Links("")
        request = Request(f"{running.url}{address}", headers={"Accept": "text/html,*/*;q=0.5"})  # noqa: S310
        try:
            with urlopen(request) as response:  # noqa: S310 - this machine
                body, kind = response.read().decode("utf-8", "replace"), response.headers.get_content_type()
        except HTTPError as error:
            error.close()
            broken.append(f"{error.code} {address}")
            continue
        if kind != "text/html":
            continue
        pages[address] = Links(body)
        for target in sorted(pages[address].targets):
            link = urlsplit(urljoin(address, target))
            if link.scheme or link.netloc:
                continue
            path = link.path + (f"?{link.query}" if link.query else "")
            if link.fragment:
                anchors.add((address, path, link.fragment))
            searches += bool(link.query)
            if path not in pages and (not link.query or searches < MOST_SEARCHES):
                waiting.append(path)
    assert not broken
    assert {"/docs/claims", "/docs/delegation", "/docs/relay", "/docs/api", "/status", "/register"} <= pages.keys()
    missing = [anchor for anchor in anchors if anchor[1] in pages and anchor[2] not in pages[anchor[1]].ids]
    assert not missing


MOST_SEARCHES = 60
"""Links with a query that are followed."""
