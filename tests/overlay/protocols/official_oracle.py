"""The issues that the official MCP Registry's validators report of a document: a restatement of its rules, and its own
validators in Go where they were built."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.conftest import missing

VALIDATORS = Path(__file__).parent / "official_validators" / "official_validators"
ALNUM = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def issues(server: dict[str, Any]) -> list[str]:
    """The rules that a document breaks; its schema aside."""
    broken = [*_of_name(server["name"]), *_of_version("version", server["version"])]
    website = server.get("websiteUrl", "https:")
    if urlsplit(website).scheme != "https" or "{" in website:
        broken.append("websiteUrl is not an https URL")
    broken += [f"icon {icon['src']}" for icon in server.get("icons", ()) if urlsplit(icon["src"]).scheme != "https"]
    for package in server.get("packages", ()):
        broken += _of_package(package)
    for remote in server.get("remotes", ()):
        broken += _of_remote(remote)
    provided = server.get("_meta", {}).get("io.modelcontextprotocol.registry/publisher-provided")
    if provided is not None and _go_size(provided) > 4096:
        broken.append("more than 4,096 bytes are provided by the publisher")
    return broken


def _of_name(name: str) -> Iterator[str]:
    if name.count("/") != 1:
        yield f"{name} has not one slash"
    namespace, _, part = name.partition("/")
    for text, inner in ((namespace, ".-"), (part, "._-")):
        if len(text) < 2 or text[0] not in ALNUM or text[-1] not in ALNUM or set(text) - set(ALNUM + inner):
            yield f"{text!r} of the name"


def _of_version(what: str, version: str) -> Iterator[str]:
    numbers = version.partition("-")[0].split(".")
    wild = all(number in "xX*" or number.lstrip("v").isdigit() for number in numbers)
    if version == "latest":
        yield f"{what} is latest"
    if version[:1] in "^~<>=" or " - " in version or "||" in version:
        yield f"{what} {version} is a range"
    if 2 <= len(numbers) <= 3 and wild and set(version) & set("xX*"):
        yield f"{what} {version} has wildcards"


def _of_package(package: dict[str, Any]) -> Iterator[str]:
    if " " in package["identifier"]:
        yield f"a space in {package['identifier']}"
    if package.get("version"):
        yield from _of_version("package version", package["version"])
    if package["registryType"] == "oci" and package.keys() & {"version", "registryBaseUrl", "fileSha256"}:
        yield "an image with a version"
    for argument in (*package.get("runtimeArguments", ()), *package.get("packageArguments", ())):
        if argument["type"] != "positional" or not (argument.get("value") or argument.get("valueHint")):
            yield f"argument {argument}"
    transport = package["transport"]
    if (transport["type"] == "stdio") != ("url" not in transport):
        yield f"transport {transport}"


def _of_remote(remote: dict[str, Any]) -> Iterator[str]:
    if remote["type"] not in ("sse", "streamable-http"):
        yield f"remote type {remote['type']}"
    named = re.findall(r"\{([^}]+)\}", remote["url"])
    if set(named) - remote.get("variables", {}).keys():
        yield f"variables of {remote['url']}"
    parts = urlsplit(re.sub(r"\{[^}]+\}", "placeholder", remote["url"]))
    host = parts.hostname or ""
    if parts.scheme != "https" or not host or host in ("localhost", "127.0.0.1") or host.endswith(".localhost"):
        yield f"remote {remote['url']}"


def _go_size(value: Any) -> int:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return sum(6 if letter in "<>&\u2028\u2029" else len(letter.encode()) for letter in text)


def issues_by_go(servers: Sequence[dict[str, Any]]) -> list[list[str]]:
    """The issues that the registry's own validators have with documents."""
    if not VALIDATORS.exists():
        if shutil.which("go") is None:
            pytest.skip("the official registry's validators need Go 1.26, which is not installed")
        missing("the official registry's validators: run `go build` in tests/overlay/protocols/official_validators;")
    lines = "".join(json.dumps(server, ensure_ascii=True) + "\n" for server in servers)
    done = subprocess.run([VALIDATORS], input=lines, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]
