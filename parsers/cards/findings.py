"""Parts of a card that are dangerous to use, or to publish: secrets, hidden texts, orders to models, and harmful
commands.

Each finding is a warning with a severity (`parsers.reasons`). The patterns are in `finding_patterns`; nothing is run,
fetched or looked up. A pattern proves nothing: it says what to look at.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from parsers.cards import finding_patterns as patterns
from parsers.cards.command_packages import Installed, installed, package_key
from parsers.cards.json_texts import texts_of
from parsers.cards.secrets import secret_in, secret_in_args
from parsers.local_hosts import is_private_url, is_unreachable_url

if TYPE_CHECKING:
    from parsers.cards.card import Skill
    from parsers.cards.fields import Fields

_SEPARATORS = re.compile(r"[\\/\s]")
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
    if patterns.HINTS.search(lower) is None:
        return
    for code, detail, hints, pattern in patterns.TEXTS:
        if any(hint in lower for hint in hints) and pattern.search(text):
            yield code, detail
            return


def note_private(url: str, fields: Fields, pointer: str) -> None:
    """Warn of a URL that leads each caller to a machine of its own, or nobody anywhere."""
    if is_private_url(url):
        fields.warn("url-local", url, pointer)
    elif is_unreachable_url(url):
        fields.warn("url-host", url, pointer)


def note_command(command: str, args: Sequence[str], fields: Fields, pointer: str) -> None:
    """Warn of dangers of a command. `pointer` is that of its entry."""
    if not command:
        return
    words, member = [command, *args], f"{pointer}/args" if args else f"{pointer}/command"
    line = " ".join(words)[:MAX_WORDS]
    lower, program = line.lower(), command.lower().split(" ")[0]
    programs = {program, *(_SEPARATORS.split(word.lower())[-1] for word in words[:2])}
    is_container = not patterns.CONTAINERS.isdisjoint(programs)
    if any(hint in lower for hint in patterns.PIPE_HINTS) and patterns.PIPES.search(line):
        fields.warn("pipe-to-shell", "", member)
    if program in patterns.PRIVILEGED_PROGRAMS or (is_container and patterns.PRIVILEGES.search(line)):
        fields.warn("privileged", "", member)
    if is_container and patterns.ROOTS.search(line):
        fields.warn("mounts-root", "", member)
    if patterns.SHELL_CHARACTERS.search(line) and patterns.SHELL_CHARACTERS.search(patterns.PLACEHOLDERS.sub("", line)):
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


class _Original(NamedTuple):
    """A well-known package, and its name in parts and without their separators."""

    name: str
    parts: list[str]
    letters: str


def _parts(key: str) -> list[str]:
    return key.lstrip("@").replace("/", "-").split("-")


_ORIGINALS = {
    registry: [_Original(name, _parts(name), "".join(_parts(name))) for name in names]
    for registry, names in patterns.KNOWN_PACKAGES.items()
}


def lookalike(name: str, registry: str) -> str:
    """The well-known package of a registry that this one is named like, and is not; "" for none: without its scope, or
    with one letter of a long part changed, left out, added or swapped."""
    key = package_key(name)
    parts = _parts(key)
    letters = "".join(parts)
    near = [original for original in _ORIGINALS.get(registry, ()) if -2 < len(original.letters) - len(letters) < 2]
    if not near or key in patterns.KNOWN_PACKAGES[registry]:
        return ""
    return next((original.name for original in near if _is_like(parts, letters, original)), "")


def _is_like(parts: list[str], letters: str, original: _Original) -> bool:
    if parts == original.parts:
        return True
    if len(parts) != len(original.parts):
        return letters == original.letters and len(original.name) >= MIN_PART
    edited = [pair for pair in zip(parts, original.parts, strict=True) if pair[0] != pair[1]]
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
    if named or any(map(_says_it_runs_commands, (description, *(skill.description for skill in skills)))):
        fields.warn("runs-commands", named[:100] or "by its description", pointer)


def _says_it_runs_commands(text: str) -> bool:
    lower = text.lower()
    return any(hint in lower for hint in patterns.RUN_HINTS) and patterns.RUNS_COMMANDS.search(text) is not None
