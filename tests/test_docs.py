"""The documents cannot be wrong about what they name: commands, settings, routes, metrics, tests, files and links."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from indexer.settings import KEYS, NOT_SETTINGS, PREFIX
from tests import generate_docs
from tests.conftest import ROOT

README = (ROOT / "README.md").read_text()
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *PAGES]
TEST_SETTINGS = {name.removeprefix(PREFIX) for name in NOT_SETTINGS}
REMOVED = {"DOORS"}
"""Settings of earlier releases, which the changelog names."""


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def block(label: str) -> str:
    """The shell block of the README that follows `<!-- label -->`."""
    match = re.search(rf"<!-- {label} -->\n```sh\n(.*?)\n```", README, re.DOTALL)
    assert match, f"the README has no command marked {label}"
    return match[1]


def test_two_commands_do_all_the_set_up() -> None:
    assert block("run").endswith("a2b up")
    assert block("test").endswith("pytest")
    for command in (block("run"), block("test")):
        assert "\n" not in command
        assert command.startswith("python3 -m venv ")


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 200


def test_ci_runs_the_test_command_of_the_readme() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    function = re.search(r"sed -n '(.*?)' README.md", script)
    assert function
    shown = subprocess.run(["sed", "-n", function[1], ROOT / "README.md"], capture_output=True, text=True, check=True)
    assert block("test") in shown.stdout


@pytest.mark.parametrize("page", generate_docs.PAGES)
def test_generated_pages_are_current(page: str) -> None:
    message = f"docs/{page} is out of date: run python -m tests.generate_docs"
    assert (DOCS / page).read_text() == generate_docs.PAGES[page](), message


@pytest.mark.parametrize("key", sorted(KEYS))
def test_every_setting_is_documented(key: str) -> None:
    assert f"`{PREFIX}{key.upper()}`" in (DOCS / "configuration.md").read_text()


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_no_setting_is_documented_that_does_not_exist(path: Path) -> None:
    names = set(re.findall(r"`A2B_([A-Z_]+)`", path.read_text())) - TEST_SETTINGS
    names -= REMOVED if path.name == "CHANGELOG.md" else set()
    assert {name.lower() for name in names} <= set(KEYS)


def test_every_metric_is_documented_and_no_other() -> None:
    source = "".join(path.read_text() for path in (ROOT / "overlay").rglob("*.py"))
    assert set(re.findall(r'"(a2b_[a-z_]+)"', source)) - {"a2b_index"} == set(
        re.findall(r"`(a2b_[a-z_]+)`", (DOCS / "operations.md").read_text())
    )


def test_every_exit_code_is_documented() -> None:
    from overlay.cli import EXIT_CODES

    documented = set(re.findall(r"^\| (\d) \|", (DOCS / "operations.md").read_text(), re.MULTILINE))
    assert documented == {"0", *map(str, EXIT_CODES.values())}


@pytest.mark.parametrize("command", generate_docs.commands())
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    from overlay import cli

    with pytest.raises(SystemExit) as ended:
        cli.main([*command.split(), "--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: a2b {command}")


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_commands_in_documents_parse(path: Path) -> None:
    from overlay import cli

    for line in re.findall(r"^(?:A2B_\w+='[^']*' )?\.venv/bin/a2b (.*)$", path.read_text(), re.MULTILINE):
        cli.parser().parse_args(shlex.split(line, comments=True))


ENTRY_PAGES = ("use", "publish", "operate", "build")


@pytest.mark.parametrize("name", ENTRY_PAGES)
def test_a_page_of_five_minutes_is_short_and_its_commands_parse(name: str) -> None:
    from overlay import cli

    text = (DOCS / f"{name}.md").read_text()
    assert len(text.split()) <= 1_200
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    commands = re.findall(r"^a2b (.*)$", "".join(blocks), re.MULTILINE)
    assert commands or name == "build"
    for command in commands:
        cli.parser().parse_args(shlex.split(command, comments=True))


def anchors(path: Path) -> set[str]:
    """The fragments of a page's headings, as GitHub derives them."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_links_resolve(path: Path) -> None:
    for target in re.findall(r"\]\((?!https?://)([^)\s]+)\)", path.read_text()):
        name, _, fragment = target.partition("#")
        linked = path.parent / name if name else path
        assert linked.exists(), f"{name_of(path)} links to {target}"
        assert not fragment or fragment in anchors(linked), f"{name_of(path)} links to {target}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_files_that_a_page_names_exist(path: Path) -> None:
    for name in re.findall(r"`((?:parsers|indexer|overlay|tests|docs|sample-blocks)/[\w./-]*)`", path.read_text()):
        assert (ROOT / name).exists(), f"{name_of(path)} names {name}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_no_line_of_prose_is_written_twice(path: Path) -> None:
    if path.name in generate_docs.PAGES:
        return
    prose = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
    heads = re.compile(r"^\|.*\n\|--.*$", re.MULTILINE)
    lines = Counter(line for line in map(str.strip, heads.sub("", prose).splitlines()) if len(line) > 30)
    assert not [line for line, count in lines.items() if count > 1]


def test_the_change_log_is_a_page_of_short_lines_for_each_release() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    assert max(release.count("\n") for release in text.split("\n## ")) <= 130
    assert not [line for line in text.splitlines() if len(line) > 120]


def test_the_way_from_a_block_to_an_answer_is_short_and_exists() -> None:
    rows = re.findall(
        r"^\| (\d+) \| `([\w.]+)` \| `([\w./]+)` \|", (DOCS / "architecture.md").read_text(), re.MULTILINE
    )
    assert [int(number) for number, _, _ in rows] == list(range(1, 15))
    for _, name, file in rows:
        body: Sequence[ast.stmt] = ast.parse((ROOT / file).read_text()).body
        for part in name.split("."):
            kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
            match = [node for node in body if isinstance(node, kinds) and node.name == part]
            assert match, f"{file} has no {name}"
            body = match[0].body


def test_the_index_of_decisions_lists_every_page() -> None:
    folder = DOCS / "decisions"
    listed = re.findall(r"^- \[[^]]+\]\((.*)\)$", (folder / "README.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(path.name for path in folder.glob("*.md") if path.name != "README.md")


def test_every_page_can_be_found_from_the_readme_or_another_page() -> None:
    linked = {
        (path.parent / target.partition("#")[0]).resolve()
        for path in DOCUMENTS
        for target in re.findall(r"\]\((?!https?://)([^)\s]+)\)", path.read_text())
    }
    orphans = [name_of(path) for path in PAGES if path not in linked and path.parent not in linked]
    assert not orphans


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_every_test_that_a_page_names_exists(path: Path) -> None:
    tests = {
        name for file in (ROOT / "tests").rglob("test_*.py") for name in re.findall(r"def (test_\w+)", file.read_text())
    }
    named = set(re.findall(r"`(test_\w+)`", path.read_text()))
    assert not named - tests


def test_every_law_names_a_test() -> None:
    laws = re.split(r"^\*\*(?=\d+[ab]?\.)", (DOCS / "laws.md").read_text(), flags=re.MULTILINE)[1:]
    numbers = [law.partition(".")[0] for law in laws]
    assert numbers == sorted(numbers, key=lambda number: (int(number.rstrip("ab")), number))
    assert {number for number in numbers if number.isdigit()} == {str(number) for number in (*range(1, 25), 26)}
    assert not [
        number for number, law in zip(numbers, laws, strict=True) if not re.search(r"^Tests: `test_", law, re.MULTILINE)
    ]
