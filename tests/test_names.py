"""Names in the field's words (docs/glossary.md): none of the words that say nothing, and one thing for each name."""

from __future__ import annotations

import ast
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.test_rooms import ROOMS, modules, name_of, parsed

NEVER = frozenset(
    (
        "told",
        "said",
        "asked",
        "heard",
        "given",
        "found",
        "known",
        "kept",
        "made",
        "each",
        "at",
        "voice",
        "voices",
        "crowd",
        "crowds",
        "standing",
        "loud",
        "quiet",
        "seat",
        "seats",
        "land",
        "landing",
        "anew",
        "behind",
        "whoever",
        "lies",
        "doubts",
        "habits",
        "several",
        "together",
        "sayings",
        "stories",
        "dress",
        "edge",
        "places",
        "hub",
        "ways_out",
        "pointing",
        "respelt",
        "house",
        "houses",
        "door",
        "doors",
        "town",
        "desk",
        "office",
    )
)
"""Words that do not say what a value holds, or that mean something else in this field."""

NEVER_IN_TESTS = NEVER | {"wanted", "own", "place"}

NEVER_IN_PRODUCT = NEVER_IN_TESTS | {"one"}

_PREDICATIVE = r"(?<!here )\b(?:is|are|was|were) (?:none of|no (?!longer\b|more than\b|larger\b)\w)"
_BANNED = re.compile(rf"\b[Hh]ouses?\b|\b[Dd]oors?\b|\bCONTRACT\b|\banew\b|shown otherwise|{_PREDICATIVE}")
"""Words that prose does not use: private words, a file that is not here, and turns that a reader takes twice."""

_IN_TEST_NAMES = re.compile(
    r"_(?:told|said|asked|wanted|anew|seats?|desk|door|lies|stands|heard|hears|speaks|crowds?|voices?|who|whoever|s)"
    r"(?:_|$)"
)
"""Words that the name of a test does not use: programs do not speak, a genitive is written without `_s_`, and a test
names what it shows."""

_PAYMENTS = (
    "parsers/claims/payment.py",
    "overlay/systems/payments/",
    "overlay/client/payment_claims.py",
    "overlay/client/hire/",
)
"""Where a claim is a payment claim. Elsewhere a body of the API and a fact of Motebit have the name outside."""

_CLAIMS_OUTSIDE = {"overlay/api/request_bodies.py": {"claim"}, "parsers/claims/motebit/identifiers.py": {"CLAIMED"}}

_LEDGERS = ("overlay/systems/relay/", "indexer/store/locks.py")
"""Where the ledger of the relay is."""

SCRIPTS = sorted((ROOT / "overlay" / "web" / "static").glob("*.js"))

PLUGS = ("indexer/chains/", "overlay/engines/", "overlay/systems/")
"""Plugs are independent of each other: two of them may have a module of the same name."""


def _word(name: str) -> str:
    """A name as it is looked up: the number `_ONE` is a name of the field."""
    return name if name == "_ONE" else name.strip("_").lower()


def names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Every name that a module gives to a class, function, parameter, variable or attribute, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno


def test_names_say_what_they_hold() -> None:
    assert not [path for path in modules() if path.stem in NEVER]
    bad = []
    for path in modules():
        never = ((line, name) for name, line in names(parsed(path)) if _word(name) in NEVER_IN_PRODUCT)
        bad += [f"{name_of(path)}:{line}: {name}" for line, name in never]
    assert not bad


def test_a_claim_is_a_payment_claim_and_the_ledger_is_the_relays() -> None:
    for path in modules():
        name = name_of(path)
        stored = {declared for declared, _ in names(parsed(path))} - _CLAIMS_OUTSIDE.get(name, set())
        assert name.startswith(_PAYMENTS) or not {word for word in stored if "claim" in word.lower()}, name
        assert name.startswith(_LEDGERS) or not {word for word in stored if "ledger" in word.lower()}, name


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of the docstrings, comments and strings of a module, or of a whole file that is not Python."""
    if path.suffix != ".py":
        yield from enumerate(path.read_text().splitlines(), 1)
        return
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type in (tokenize.STRING, tokenize.COMMENT):
                yield from enumerate(token.string.strip("\"'").split("\n"), token.start[0])


def prose() -> list[Path]:
    """Product code, pages, and documents that are not records of the past."""
    web = ROOT / "overlay" / "web"
    return [*modules(), *web.glob("*.html"), *SCRIPTS, *sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"]


def test_prose_is_plain() -> None:
    bad = []
    for path in prose():
        bad += [f"{name_of(path)}:{number}: {line.strip()}" for number, line in texts(path) if _BANNED.search(line)]
    assert not bad


_WITHOUT_NOUN = re.compile(r"(?:What|Those|That|The same|All of them)\b")
"""Beginnings of a docstring whose pronoun has no noun of its own, whatever follows it."""

_EVERYDAY_NOUNS = "argument character digit element folder header letter name path push scope test"

_FUNCTION_WORDS = (
    "a all an and another any are as at been both by each first from had has have if in is it its last left may more"
    " most new next no none not of off on one only or other out own same so such that the them these this those to two"
    " up was were when where which with without"
)
"""Words that stand in names of classes and terms, too, and are no nouns."""


@cache
def nouns() -> frozenset[str]:
    """The nouns of the program: words of its classes, of its modules and of the glossary's terms."""
    words = set(_EVERYDAY_NOUNS.split())
    for path in modules():
        words.update(path.stem.split("_"))
        classes = (node.name for node in ast.walk(parsed(path)) if isinstance(node, ast.ClassDef))
        words.update(word.lower() for name in classes for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z]+", name))
    terms = re.findall(r"^\| ([^|]+) \|", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)
    words.update(word for term in terms for word in re.findall(r"[a-z]+", term.lower()))
    return frozenset(words.difference(_FUNCTION_WORDS.split()))


def is_noun(word: str) -> bool:
    """Whether a word, in singular or plural, or with 's, is among `nouns`."""
    bare = word.strip(".,:;()`'").lower().removesuffix("'s")
    return not nouns().isdisjoint((bare, bare.removesuffix("s"), bare.removesuffix("es"), re.sub("ies$", "y", bare)))


def is_headless(docstring: str) -> bool:
    """Whether the docstring names its subject too late: a reader would not know what it is about.

    A beginning of `_WITHOUT_NOUN` is refused whatever follows. `Whether` needs a noun of the program in the rest of
    its first five words, in its first sentence: adverbs, pronouns and verbs do not help, as only `nouns` count."""
    words = re.split(r"[.;:](?:\s|$)", docstring, maxsplit=1)[0].split()[:5]
    return bool(_WITHOUT_NOUN.match(docstring)) or (words[:1] == ["Whether"] and not any(map(is_noun, words[1:])))


def docstrings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Texts that stand as statements, with their lines: of modules, classes, functions and attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def test_no_docstring_begins_with_a_pronoun_without_its_noun() -> None:
    bad = []
    for path in [*modules(), *modules_of_tests()]:
        headless = ((line, text) for line, text in docstrings(parsed(path)) if is_headless(text))
        bad += [f"{name_of(path)}:{line}: {text.splitlines()[0]}" for line, text in headless]
    assert not bad, "\n".join(bad)


@pytest.mark.parametrize(
    "docstring",
    [
        "What is due.", "What a page of results really holds, the card: x.", "Those of these blocks that are stored.",
        "That an event is on a chain.", "The same for a block.", "All of them.", "Whether any of them does.",
        "Whether it is very surely, quite simply so: a block.", "Whether it is. A block.",
    ],
)  # fmt: skip
def test_a_docstring_without_a_subject_is_found(docstring: str) -> None:
    assert is_headless(docstring)


@pytest.mark.parametrize("docstring", ["Whether the best chain has the block.", "Whether transactions are stored."])
def test_a_docstring_with_a_subject_is_allowed(docstring: str) -> None:
    assert not is_headless(docstring)


def modules_of_tests() -> list[Path]:
    """The modules of the tests, without those of other projects."""
    others = {"python_modules", "node_modules"}
    return [path for path in sorted((ROOT / "tests").rglob("*.py")) if not others & set(path.parts)]


def test_names_in_tests_say_what_they_hold() -> None:
    bad = []
    for path in modules_of_tests():
        stored = [(path.stem, 0), *names(parsed(path))]
        bad += [f"{name_of(path)}:{line} {name}" for name, line in stored if name.strip("_").lower() in NEVER_IN_TESTS]
        bad += [f"{name_of(path)}:{line} {name}" for name, line in stored if _is_unclear_test(name)]
    assert not bad, "\n".join(bad)


def _is_unclear_test(name: str) -> bool:
    """Whether the name of a test has one of the words that test names avoid."""
    return name.startswith("test_") and _IN_TEST_NAMES.search(name) is not None


@pytest.mark.parametrize("path", SCRIPTS, ids=name_of)
def test_names_in_scripts_of_pages_say_what_they_hold(path: Path) -> None:
    declared = re.findall(r"\b(?:const|let|var) (\w+)|\(?(\w+)(?:, \w+)?\)? =>|\(\w+, (\w+)\) =>", path.read_text())
    assert declared
    assert not {name for names in declared for name in names if name} & NEVER


def plug_of(path: Path) -> str:
    """The plug that a module belongs to, else nothing."""
    name = name_of(path)
    plug = next((plug for plug in PLUGS if name.startswith(plug)), None)
    return name.removeprefix(plug).split("/")[0] if plug else ""


def is_ambiguous(paths: list[Path]) -> bool:
    """Whether a name is given twice, but for once in each of several plugs."""
    return len(paths) > 1 and (len(set(map(plug_of, paths))) < len(paths) or "" in map(plug_of, paths))


def test_a_class_name_means_one_thing() -> None:
    classes = defaultdict(list)
    for path in modules():
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ClassDef):
                classes[node.name.strip("_")].append(path)
    assert not {name: list(map(name_of, paths)) for name, paths in classes.items() if len(paths) > 1}


@pytest.mark.parametrize("room", ROOMS)
def test_a_module_name_means_one_thing_in_its_room(room: str) -> None:
    stems = defaultdict(list)
    for path in modules():
        if path.parts[len(ROOT.parts)] == room and path.stem != "__init__":
            stems[path.stem].append(path)
    assert not {stem: list(map(name_of, paths)) for stem, paths in stems.items() if is_ambiguous(paths)}
