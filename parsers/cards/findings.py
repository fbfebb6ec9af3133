"""Parts of a card that are dangerous to use, or to publish: secrets, hidden texts, orders to models, and harmful
commands.

Each finding is a warning with a severity (`parsers.reasons`). The patterns are in `finding_patterns`; nothing is run,
fetched or looked up. A pattern proves nothing: it says what to look at.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from parsers.cards import finding_patterns as patterns
from parsers.cards.command_packages import Installed, installed, package_key
from parsers.cards.json_texts import texts_of
from parsers.cards.secrets import secret_in, secret_in_args
from parsers.local_hosts import is_private_url

if TYPE_CHECKING:
    from parsers.cards.card import Skill
    from parsers.cards.fields import Fields

MAX_WORDS = 8_192
"""Characters of a command, with its arguments, that are searched."""


def note_texts(value: Any, fields: Fields, pointer: str = "") -> None:
    """Warn of dangers in the texts of a JSON value: a card, or an entry of a config."""
    for text in texts_of(value, pointer):
        if not isinstance(text.value, str):
            for number, where in secret_in_args(text.value):
                fields.warn("secret", where[:100], f"{text.pointer}/{number}")
            continue
        if where := secret_in(text.value, text.name, is_setting=text.is_setting):
            fields.warn("secret", where[:100], text.pointer)
        for code, detail in _of_text(text.value):
            fields.warn(code, detail, text.pointer)


def _of_text(text: str) -> Iterator[tuple[str, str]]:
    if (
        not text.isprintable()
        and not text.isascii()
        and patterns.HIDDEN.search(patterns.FLAGS_OF_REGIONS.sub("", text))
    ):
        yield "hidden-text", "characters that a reader does not see"
    elif "\x1b[" in text:
        yield "hidden-text", "terminal escapes"
    lower = text.lower()
    for code, detail, hints, pattern in patterns.TEXTS:
        if any(hint in lower for hint in hints) and pattern.search(text):
            yield code, detail
            return


def note_private(url: str, fields: Fields, pointer: str) -> None:
    """Warn of a URL that leads each caller to a machine of its own."""
    if is_private_url(url):
        fields.warn("url-local", url, pointer)


def note_command(command: str, args: Sequence[str], fields: Fields, pointer: str) -> None:
    """Warn of dangers of a command. `pointer` is that of its entry."""
    if not command:
        return
    words, member = [command, *args], f"{pointer}/args" if args else f"{pointer}/command"
    line = " ".join(words)[:MAX_WORDS]
    programs = {re.split(r"[\\/\s]", word.lower())[-1] for word in words[:2]} | {command.lower().split(" ")[0]}
    if patterns.PIPES.search(line):
        fields.warn("pipe-to-shell", "", member)
    if not patterns.PRIVILEGED_PROGRAMS.isdisjoint({command.lower().split(" ")[0]}) or (
        programs & patterns.CONTAINERS and patterns.PRIVILEGES.search(line)
    ):
        fields.warn("privileged", "", member)
    if programs & patterns.CONTAINERS and patterns.ROOTS.search(line):
        fields.warn("mounts-root", "", member)
    if patterns.SHELL_CHARACTERS.search(patterns.PLACEHOLDERS.sub("", line)):
        fields.warn("shell-characters", "", member)
    package = installed(command, list(args))
    if package is not None:
        if not _is_pinned(package):
            fields.warn("unpinned", package.name[:100], member)
        if original := lookalike(package.name, package.runner.registry):
            fields.warn("lookalike-package", f"{package.name[:100]}, not {original}", member)


def _is_pinned(package: Installed) -> bool:
    """Whether it is one version, of an image one digest or a tag that is not the newest."""
    if package.runner.registry != "oci":
        return bool(package.version)
    last = package.name.rpartition("/")[2]
    return "@sha256:" in last or (":" in last and not last.endswith(":latest"))


def lookalike(name: str, registry: str) -> str:
    """The well-known package of a registry that this one is named like, and is not; "" for none: without its scope, or
    with one letter of a long part changed, left out, added or swapped."""
    key, originals = package_key(name), patterns.KNOWN_PACKAGES.get(registry, ())
    return "" if key in originals else next((original for original in originals if _is_like(key, original)), "")


def _is_like(key: str, original: str) -> bool:
    parts, original_parts = (re.split("[-/]", text.lstrip("@")) for text in (key, original))
    if parts == original_parts:
        return True
    if len(parts) != len(original_parts):
        return "".join(parts) == "".join(original_parts) and len(original) >= MIN_PART
    edited = [pair for pair in zip(parts, original_parts, strict=True) if pair[0] != pair[1]]
    return len(edited) == 1 and len(edited[0][1]) >= MIN_PART and _is_one_edit(*edited[0])


MIN_PART = 6
"""Letters of a part of a name that one letter may differ in: of shorter parts, many names differ in one."""


def _is_one_edit(left: str, right: str) -> bool:
    common = zip(left, right, strict=False)
    start = next((number for number, (a, b) in enumerate(common) if a != b), min(len(left), len(right)))
    a, b = left[start:], right[start:]
    is_swapped = a[:2] == b[1::-1] and a[2:] == b[2:]
    return is_swapped or a[1:] == b[1:] or a[1:] == b or a == b[1:]


def note_tools(description: str, skills: Iterable[Skill], fields: Fields, pointer: str) -> None:
    """Warn where a server says that it runs commands."""
    skills = list(skills)
    named = next((skill.id for skill in skills if skill.id.lower().replace("-", "_") in patterns.COMMAND_TOOLS), "")
    texts = (description, *(skill.description for skill in skills))
    if named or any(map(patterns.RUNS_COMMANDS.search, texts)):
        fields.warn("runs-commands", named[:100] or "by its description", pointer)
