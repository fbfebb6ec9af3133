"""Texts to fit the table on: listings, and questions with the listings that meet them, from public data."""

from __future__ import annotations

import csv
import io
import json
import lzma
import random
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

Json = dict[str, Any]

REPOSITORIES = (
    "fairyshine+Seal-Tools",
    "microsoft+JARVIS",
    "clinc+oos-eval",
    "tldr-pages+tldr",
    "TellinaTool+nl2bash",
    "PolyAI-LDN+task-specific-datasets",
    "sonos+nlu-benchmark",
    "IBM+NESTFUL",
)
SEAL, JARVIS, CLINC, TLDR, BASH, POLYAI, SONOS, NESTFUL = REPOSITORIES
TEXT_WORDS, QUESTION_WORDS = 120, 96
FEWEST_WORDS = 4  # of a sentence that is a question
MEASURED = 400  # questions of the relevance bench that are reported
_INTENTS = (
    "BookRestaurant",
    "AddToPlaylist",
    "GetWeather",
    "PlayMusic",
    "RateBook",
    "SearchScreeningEvent",
    "SearchCreativeWork",
)


class Row(NamedTuple):
    """An entry of a public list: its tools with their descriptions, its repository, and other wordings of it."""

    source: str
    id: str
    name: str
    description: str
    keywords: list[str]
    tools: list[tuple[str, str | None]]
    repository: str | None
    wordings: list[str | None]

    def text(self) -> str:
        keywords = " " + ", ".join(map(str, self.keywords)) if any(self.keywords) else ""
        return f"{self.name}. {self.description}{keywords}"


class Collection:
    """Distinct texts by number, the numbers of listings, and questions: text, listings that meet it, source."""

    def __init__(self, mirror: Path) -> None:
        self._mirror = mirror
        self.chance = random.Random(7)
        self.texts: dict[str, int] = {}
        self.listings: set[int] = set()
        self.questions: list[tuple[int, list[int], str]] = []

    def text(self, text: object, most: int = TEXT_WORDS) -> int:
        return self.texts.setdefault(" ".join(str(text).split()[:most]).strip(), len(self.texts))

    def listing(self, text: str) -> int:
        number = self.text(text)
        self.listings.add(number)
        return number

    def question(self, text: object, listings: Iterable[int], source: str) -> None:
        if text and len(str(text)) > 3:
            self.questions.append((self.text(text, QUESTION_WORDS), sorted(set(listings)), source))

    def git(self, repository: str, *command: str) -> bytes:
        run = ["git", f"--git-dir={self._mirror}/{repository}/repo", *command]
        return subprocess.run(run, capture_output=True, check=True).stdout

    def file(self, repository: str, path: str) -> str:
        return self.git(repository, "show", f"HEAD:{path}").decode("utf-8", "replace")

    def write(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True, parents=True)
        content = {"texts": list(self.texts), "docs": sorted(self.listings), "questions": self.questions}
        with lzma.open(folder / "train.json.xz", "wt", preset=6) as file:
            json.dump(content, file, ensure_ascii=False)


def lines(path: Path) -> list[Json]:
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def sentences(text: str | None) -> list[str]:
    return [one for one in re.split(r"(?<=[.!?;])\s+", text or "") if len(one.split()) >= FEWEST_WORDS]


def repository(url: object) -> str | None:
    match = re.search(r"github\.com/([\w.-]+/[\w.-]+)", str(url))
    return match.group(1).lower().removesuffix(".git") if match else None


def rows(data: Path) -> Iterator[Row]:
    """The entries of three lists of MCP servers."""
    for row in lines(data / "toolsdk-packages.jsonl"):
        tools = [(key, tool.get("description")) for key, tool in (row.get("_tools") or {}).items() if _is_object(tool)]
        yield Row(
            "toolsdk", row["packageName"], row.get("name") or row["packageName"], row.get("description") or "",
            [row.get("_category") or ""], tools, repository(row.get("url")), [],
        )  # fmt: skip
    for row in lines(data / "tensorblock-profiles.jsonl"):
        url = row["links"].get("repo") or row["links"].get("primary")
        yield Row(
            "tensorblock", row["id"], row["name"], row.get("description") or "", [row.get("category") or ""], [],
            repository(url), [],
        )  # fmt: skip
    for row in lines(data / "metorial-index.jsonl"):
        outer = row.get("server") or {}
        server, listing = outer.get("server") or {}, row.get("listing") or {}
        skills = list(listing.get("skills") or [])
        yield Row(
            "metorial", outer.get("identifier") or row["path"], server.get("name") or row["path"],
            server.get("description") or "", skills,
            [(tool["name"], tool.get("description")) for tool in row.get("tools") or []],
            repository((outer.get("repo") or {}).get("url")), [listing.get("description"), *skills],
        )  # fmt: skip


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def add_lists(to: Collection, data: Path) -> None:
    """The lists. Of the repositories that the measured questions of the relevance bench are about, only the listings'
    own texts; of a server in two lists, no wordings of one list as questions about the other."""
    entries = list(rows(data))
    sources: dict[str | None, set[str]] = {}
    for row in entries:
        sources.setdefault(row.repository, set()).add(row.source)
    relevance = [
        row
        for row in lines(data / "relevance-dev.jsonl")
        if "official" not in (row["query_source"], row["target_source"])
    ]
    measured = {row["repo"].lower() for row in relevance[:MEASURED]}
    targets: dict[tuple[str, str], int] = {}
    for row in entries:
        listing = to.listing(row.text())
        targets.setdefault((row.source, row.id), listing)
        if row.repository not in measured:
            _add_questions(to, row, listing, has_wordings=len(sources.get(row.repository) or ()) == 1)
    for row in relevance[MEASURED:]:
        target = targets.get((row["target_source"], row["target_id"]))
        if row["repo"].lower() not in measured and target is not None:
            to.question(row["query"], [target], "relevance")


def _add_questions(to: Collection, row: Row, listing: int, *, has_wordings: bool) -> None:
    to.question(row.name, [listing], "name")
    parts = sentences(row.description)
    if len(parts) > 1:
        number = to.chance.randrange(len(parts))
        rest = " ".join(part for other, part in enumerate(parts) if other != number)
        # the listing without this sentence is numbered before the question
        target = to.text(f"{row.name}. {rest}")
        to.question(parts[number], [target], "sentence")
    if has_wordings:
        others = row.wordings[1:]
        for wording in row.wordings[:1] + to.chance.sample(others, min(3, len(others))):
            to.question(wording, [listing], "wording")
    for name, text in to.chance.sample(row.tools, min(12, len(row.tools))):
        tool = to.listing(f"{row.name}: {name}. {text or ''}")
        if text:
            to.question((sentences(text) or [text])[0], [tool, listing], "tool")


def add_agents(to: Collection, data: Path) -> None:
    """Agent cards, with the examples of their skills as questions."""
    for file in ("a2a-cards.jsonl", "a2b-agent-cards-synthetic-pricing.jsonl"):
        for card in (row["card"] for row in lines(data / file)):
            name = card.get("name") or ""
            listing = to.listing(f"{name}. {card.get('description') or ''}")
            to.question(name, [listing], "name")
            for skill in (card.get("skills") or [])[:12]:
                number = to.listing(f"{name}: {skill.get('name')}. {skill.get('description') or ''}")
                to.question(skill.get("name"), [number, listing], "skill")
                for example in (skill.get("examples") or [])[:4]:
                    if isinstance(example, str):
                        to.question(example, [number, listing], "example")


def add_needs(to: Collection) -> None:
    """Public data of needs that none of the benchmarks consists of."""
    apis = {}
    for line in to.file(SEAL, "Seal-Tools_Dataset/tool.jsonl").splitlines():
        api = json.loads(line)
        apis[api["api_name"]] = to.listing(f"{api['api_name']}. {api['api_description']}")
    for part in ("dev", "test_in_domain", "test_out_domain"):
        for line in to.file(SEAL, f"Seal-Tools_Dataset/{part}.jsonl").splitlines():
            row = json.loads(line)
            to.question(
                row["query"], [apis[call["api"]] for call in row["calling"] if call["api"] in apis], "sealtools"
            )
    for part in ("huggingface", "multimedia", "dailylifeapis"):
        for node in json.loads(to.file(JARVIS, f"taskbench/data_{part}/graph_desc.json"))["nodes"]:
            to.listing(f"{node['id']}. {node.get('desc') or ''}")
        for line in to.file(JARVIS, f"taskbench/data_{part}/user_requests.json").splitlines():
            to.question(json.loads(line)["user_request"], [], "taskbench")
    for part in json.loads(to.file(CLINC, "data/data_full.json")).values():
        for text, intent in part:
            to.question(text, [] if intent == "oos" else [to.listing(intent.replace("_", " "))], "clinc")


def _pages(archive: bytes) -> Iterator[list[str]]:
    """The lines of the pages in a tar archive."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as pages:
        for member in pages:
            if member.name.endswith(".md") and (file := pages.extractfile(member)):
                yield file.read().decode("utf-8", "replace").splitlines()


def add_manuals(to: Collection) -> None:
    """Pages about commands, with their uses as questions, and descriptions of shell commands."""
    for page in _pages(to.git(TLDR, "archive", "HEAD", "pages")):
        about = [
            line[2:]
            for line in page
            if line.startswith("> ") and "More information" not in line and "See also" not in line
        ]
        listing = to.listing(f"{page[0][2:]}. {' '.join(about)}")
        uses = [re.sub(r"[\[\]]", "", line[2:]).rstrip(":") for line in page if line.startswith("- ")]
        for use in to.chance.sample(uses, min(5, len(uses))):
            to.question(use, [listing], "tldr")
    for line in to.chance.sample(sorted(set(to.file(BASH, "data/bash/all.nl").splitlines())), 6000):
        to.question(line, [], "nl2bash")


def add_intents(to: Collection) -> None:
    """Requests to assistants, and calls of functions."""
    banking = list(csv.reader(io.StringIO(to.file(POLYAI, "banking_data/train.csv"))))[1:]
    for text, intent in to.chance.sample(banking, 3000):
        to.question(" ".join(text.split()), [to.listing(intent.replace("_", " "))], "banking")
    for intent in _INTENTS:
        path = f"2017-06-custom-intent-engines/{intent}/train_{intent}.json"
        for row in json.loads(to.file(SONOS, path))[intent]:
            to.question("".join(part["text"] for part in row["data"]), [], "snips")
    functions = {
        row["name"]: to.listing(f"{row['name']}. {row.get('description') or ''}")
        for row in json.loads(to.file(NESTFUL, "data/non-executable/non-executable-glaive-spec.json"))
    }
    for row in json.loads(to.file(NESTFUL, "data/non-executable/non-executable-glaive-data.json")):
        to.question(
            row["input"], [functions[call["name"]] for call in row["output"] if call["name"] in functions], "nestful"
        )


def add_sets(to: Collection, sets: Path) -> None:
    """Benchmarks: their tools, and their questions with the source `set:NAME`."""
    for folder in sorted(path for path in sets.iterdir() if path.is_dir()):
        listings: dict[str, int] = {}
        for row in lines(folder / "tools.jsonl"):
            ((name, server),) = row["payload"]["mcpServers"].items()
            tools = server.get("tools") or []
            names = " " + ", ".join(tool["name"] for tool in tools) if tools else ""
            listings[row["id"]] = to.listing(f"{name}. {server['description']}{names}")
            for tool in tools[:30]:
                to.listing(f"{name}: {tool['name']}. {tool['description']}")
        for row in lines(folder / "queries.jsonl"):
            if row["part"] == "dev":
                to.question(row["query"], [listings[id_] for id_ in row["gold"]], f"set:{folder.name}")


def main() -> None:
    """Collect all of them."""
    out, data, sets, mirror = map(Path, sys.argv[1:5])
    collection = Collection(mirror)
    add_lists(collection, data)
    add_agents(collection, data)
    add_needs(collection)
    add_manuals(collection)
    add_intents(collection)
    add_sets(collection, sets)
    collection.write(out)


if __name__ == "__main__":
    main()
