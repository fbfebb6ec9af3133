"""Live secrets are found by one rule of forms and names, wherever a card or a pointer may hold one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parsers.cards import ToolConfig, examine, read
from parsers.cards.secrets import has_secret_form, is_secret_name, secret_in, secret_in_args, secrets_of

TOKEN = "ghp_" + "a1B2c3" * 6
RANDOM = "q7Jx2mPz90LkVbT4RwYd"
WIF = "KwDiBf89QgGbjEhKnhXJuH7LrciVrZi3qYjgd9M7rFU73sVHnoWn"
HEX = "0x" + "ab12cd34" * 8

FORMS = [
    WIF, "5HueCGU8rMjxEXxiPuD5BDku4MkFqeZyd4dZ1jvhTVqvbTLvyTJ", "sk-proj-" + "a1B2" * 8, TOKEN,
    "AKIA" + "ABCDEFGH12345678", "-----BEGIN RSA PRIVATE KEY-----\nabc",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
    "postgres://admin:hunter22@db.example/x", "https://user:hunter2secret@a.example/mcp",
    "tvly-dev-KbQdXfGhZjKlMnOpQrStUvWx", "--api-key=xoxb-9876543210-abcdzfghij",
]  # fmt: skip
NO_SECRETS = [
    "Private key in WIF format (starts with K, L or 5)", "Your OpenAI key, it starts with sk-", "", "<your key>",
    "YOUR_API_KEY", "${GITHUB_TOKEN}", "postgres://user:<password>@host/db", "postgres://user:password@localhost/db", "postgres://user:my-password1@localhost/db",
    "redis://:db_secret@host",
    "xoxb-your-bot-token", "https://a.example/x?api_key=${API_KEY}", "https://a.example/x?api_key=YOUR_API_KEY",
    "https://a.example:8443/a@b", "https://a.example/?token=a&key=name", "sk-learn-and-other-libraries",
]  # fmt: skip


@pytest.mark.parametrize("text", FORMS)
def test_a_form_is_recognized_in_any_text(text: str) -> None:
    assert has_secret_form(text)
    assert has_secret_form(f"call it with ({text}) and nothing else")


@pytest.mark.parametrize("text", NO_SECRETS)
def test_a_description_or_placeholder_is_no_secret(text: str) -> None:
    assert not secret_in(text)
    assert not secret_in(text, "API_KEY")


@pytest.mark.parametrize("name", ["API_KEY", "apiKey", "x-api-key", "GITHUB_TOKEN", "Authorization", "db.password"])
def test_a_random_text_under_the_name_of_a_secret_is_one(name: str) -> None:
    assert is_secret_name(name)
    assert secret_in(RANDOM, name) == name
    assert not secret_in(RANDOM, "MODEL")
    for text in ("required", "The key of your account", "api-key", "0000-0000-0000-0000", "sk-...", "secret-value-123"):
        assert not secret_in(text, name)


@pytest.mark.parametrize("name", ["TOKEN_URL", "tokenAddress", "max_tokens", "keywords", "API_KEY_NAME", "publicKey"])
def test_names_of_what_is_about_a_secret_are_none(name: str) -> None:
    assert not is_secret_name(name)


def test_a_digest_is_a_key_only_where_a_program_is_configured() -> None:
    assert not secret_in(HEX)
    assert secret_in(HEX, is_setting=True)
    assert not list(secrets_of({"x-motebit": {"public_key": HEX}, "description": f"transaction {HEX}"}))
    assert [secret.pointer for secret in secrets_of({"env": {"SEED": HEX}})] == ["/env/SEED"]


def agent(**more: Any) -> dict[str, Any]:
    return {"name": "A", "url": "https://a.example/", "skills": [{"id": "a"}], **more}


def tool(**entry: Any) -> dict[str, Any]:
    return {"mcpServers": {"t/1": {"command": "npx", **entry}}}


SERVER = "/mcpServers/t~11"
URL = f"https://a.example/mcp?api_key={RANDOM}&page=2"


@pytest.mark.parametrize(
    ("card", "pointer"),
    [
        (tool(url=URL), f"{SERVER}/url"), (tool(url="https://me:s3cr3t-77@a.example/mcp"), f"{SERVER}/url"),
        (tool(serverUrl=f"https://a.example/mcp?key={RANDOM}"), f"{SERVER}/serverUrl"),
        (tool(headers={"Authorization": f"Bearer {RANDOM}"}), f"{SERVER}/headers/Authorization"),
        (tool(args=["-y", "x", "--token", RANDOM]), f"{SERVER}/args/3"),
        (tool(args=["x", f"--api-key={RANDOM}"]), f"{SERVER}/args/1"),
        (tool(args=["run", "-e", f"API_KEY={RANDOM}", "x"]), f"{SERVER}/args/2"),
        (tool(args=["mcp-remote", URL, "--header", f"Authorization: Bearer {RANDOM}"]), f"{SERVER}/args/1"),
        (tool(command=["npx", "x", "--token", RANDOM]), f"{SERVER}/command/3"),
        (tool(env={"API_KEY": RANDOM}), f"{SERVER}/env/API_KEY"), (tool(env={"X": TOKEN}), f"{SERVER}/env/X"),
        (tool(environment={"API_KEY": RANDOM}), f"{SERVER}/environment/API_KEY"),
        (tool(tools=[{"name": "a", "description": f"use {TOKEN}"}]), f"{SERVER}/tools/0/description"),
        ({**tool(), "inputs": {"token": RANDOM}}, "/inputs/token"),
        (agent(url=URL), "/url"), (agent(description=f"use {TOKEN}"), "/description"),
        (agent(authentication={"schemes": ["bearer"], "credentials": RANDOM}), "/authentication/credentials"),
        (agent(skills=[{"id": "a", "examples": ["one", f"two {TOKEN}"]}]), "/skills/0/examples/1"),
        (agent(supportedInterfaces=[{"url": URL}]), "/supportedInterfaces/0/url"),
    ],
)  # fmt: skip
def test_a_secret_is_warned_of_wherever_it_is_and_not_repeated(card: dict[str, Any], pointer: str) -> None:
    warnings = [warning for warning in examine(json.dumps(card).encode()).warnings if warning.code == "secret"]
    assert pointer in [warning.pointer for warning in warnings]
    assert len(warnings) == (2 if "mcp-remote" in str(card) else 1)
    assert not any(text in warning.sentence for warning in warnings for text in (RANDOM, TOKEN, "s3cr3t"))


def test_a_registration_file_is_searched_too() -> None:
    file = {"type": "https://eips.ethereum.org/EIPS/eip-8004#registration-v1", "name": "A",
            "services": [{"name": "web", "endpoint": URL}]}  # fmt: skip
    entry = f"eip155:1:0x{'ab' * 20}/1"
    warnings = examine(json.dumps(file).encode(), entry=entry).warnings
    assert ("secret", "/services/0/endpoint") in [(warning.code, warning.pointer) for warning in warnings]


def test_signatures_are_made_to_be_public() -> None:
    jws = FORMS[6]
    assert not list(secrets_of(agent(signatures=[{"protected": jws, "signature": jws}])))


def test_a_secret_of_settings_is_not_repeated_in_the_record() -> None:
    card = read(json.dumps(tool(env={"API_KEY": RANDOM}, headers={"X-Api-Key": RANDOM, "X-Region": "eu"})).encode())
    assert isinstance(card, ToolConfig)
    [server] = card.servers
    assert (server.env, server.headers) == ({"API_KEY": ""}, {"X-Api-Key": "", "X-Region": "eu"})


def test_a_flag_names_the_argument_after_it_and_no_other() -> None:
    assert list(secret_in_args(["--password", "--ca-cert-path-2048", "--port", "8080"])) == []
    assert list(secret_in_args(["--token", 5, RANDOM, None])) == []
    assert list(secret_in_args(["--token", RANDOM, RANDOM])) == [(1, "argument 2 (token)")]


NAMES = st.text(st.characters(exclude_characters="\0"), max_size=5) | st.sampled_from(["env", "args", "token"])
JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=5) | st.sampled_from(FORMS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
@settings(max_examples=60)
def test_every_secret_has_the_pointer_of_a_text_with_it(value: Any) -> None:
    for secret in secrets_of(value):
        text = value
        for part in secret.pointer.split("/")[1:]:
            text = text[int(part) if isinstance(text, list) else part.replace("~1", "/").replace("~0", "~")]
        assert isinstance(text, str)
        assert secret_in(text, "token", is_setting=True) or text in FORMS


@pytest.mark.parametrize(
    "unit", ["eyJaaaaaaaaaaaa.", "-sk-", "a://b:c", "_xoxb-", "5", "SG.aaaaaaaaaaaaaaaaaaaaaaa.", "?a=b&", "KEY=", "a1"]
)
def test_a_hostile_text_takes_linear_time(unit: str) -> None:
    """Steps of a regular expression cannot be counted: a mebibyte that took quadratic time would not end."""
    text = unit * ((1 << 20) // len(unit))
    secret_in(text, "token", is_setting=True)
    list(secret_in_args([text, "--token", text]))
