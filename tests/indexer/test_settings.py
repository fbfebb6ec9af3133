"""Settings: what wins over what, what is refused, and what is never shown."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st

from indexer.masking import masked
from indexer.setting_values import LIMITS, ChainUrl, ListenAddress, Quota
from indexer.settings import KEYS, Settings, SettingsError, sample_blocks
from indexer.store.layout import connect
from tests.conftest import ROOT


def refused(**supplied: object) -> str:
    with pytest.raises(SettingsError) as caught:
        Settings.load(**supplied)  # type: ignore[arg-type]
    return str(caught.value)


def toml(folder: Path, text: str) -> Path:
    file = folder / "a2b.toml"
    file.write_text(text)
    return file


def certificate(folder: Path) -> str:
    """A file that holds an authority's certificate."""
    path = folder / "ca.pem"
    trustme.CA().cert_pem.write_to_path(str(path))
    return str(path)


def test_nothing_configured_means_no_chain_under_the_working_directory() -> None:
    settings = Settings.load()
    assert (settings.sample, settings.chains, settings.sources()) == (False, (), {})
    assert settings.data == Path("a2b-data")
    assert settings.database == "sqlite:///a2b-data/a2b.db"
    assert settings.search == "native:a2b-data/index"


@pytest.mark.parametrize(
    "supplied", [{"flags": {"chains": "bsv=http://a"}}, {"environ": {"A2B_CHAINS": "bsv=http://a"}}]
)
def test_the_demonstration_is_without_chains_only_and_in_another_folder_unless_one_is_named(
    supplied: dict[str, dict[str, str]],
) -> None:
    assert (Settings.load(demo=True).sample, Settings.load(demo=True).data) == (True, Path("a2b-demo"))
    named = Settings.load(environ={"A2B_DATA": "/srv/a2b"}, demo=True)
    assert (named.sample, named.data) == (True, Path("/srv/a2b"))
    configured = Settings.load(**supplied, demo=True)  # type: ignore[arg-type]
    assert (configured.sample, configured.data) == (False, Path("a2b-data"))


def test_the_demonstration_follows_the_packaged_sample_under_the_working_directory() -> None:
    settings = Settings.load(demo=True)
    assert settings.database == "sqlite:///a2b-demo/a2b.db"
    assert settings.search == "native:a2b-demo/index"
    assert (settings.host, settings.port) == ("127.0.0.1", 8080)
    [chain] = settings.chains
    folder, _, options = chain.url.removeprefix("files:").partition("?")
    assert chain.name == "demo"
    assert (Path(unquote(folder)) / "blk00000.dat").is_file()
    assert options == "chain=bsv&network=regtest"


def test_a_wheel_finds_its_sample_blocks_inside_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    inside = tmp_path / "indexer" / "sample-blocks" / "bsv-regtest"
    inside.mkdir(parents=True)
    monkeypatch.setattr("indexer.settings.__file__", str(tmp_path / "indexer" / "settings.py"))
    assert sample_blocks() == inside
    inside.rmdir()
    assert sample_blocks() == tmp_path / "sample-blocks" / "bsv-regtest"


def test_database_and_index_follow_the_data_folder_unless_they_are_named() -> None:
    settings = Settings.load({"data": "/srv/a2b", "search": "whoosh:/fast"})
    assert settings.database == "sqlite:////srv/a2b/a2b.db"
    assert settings.search == "whoosh:/fast"


def test_flags_win_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    file = toml(tmp_path, 'port = 1\nhost = "file"\ndata = "of-file"\n')
    environ = {"A2B_PORT": "2", "A2B_HOST": "environment", "HOME": "/"}
    settings = Settings.load({"port": "3", "host": None}, environ, file)
    assert (settings.port, settings.host, settings.data) == (3, "environment", Path("of-file"))


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("127.0.0.1:9464", ListenAddress("127.0.0.1", 9464)),
        ("[::1]:0", ListenAddress("::1", 0)),
        (":9", ListenAddress("127.0.0.1", 9)),
        ("prom.example:65535", ListenAddress("prom.example", 65_535)),
        ("off", None),
        ("", None),
    ],
)  # fmt: skip
def test_metrics_are_served_at_an_address_and_nowhere_by_default(text: str, meant: ListenAddress | None) -> None:
    metrics = Settings.load({}, {"A2B_METRICS": text}).metrics
    assert metrics == meant


@pytest.mark.parametrize("text", ["9464", "127.0.0.1", "a:b", "::1:9464", "[::1]", "a b:1", ":65536", "x:" + "1" * 99])
def test_an_address_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match=r"metrics is|port of metrics is"):
        Settings.load({"metrics": text})


def test_blank_values_count_as_not_given(tmp_path: Path) -> None:
    settings = Settings.load({"host": ""}, {"A2B_PORT": " "}, toml(tmp_path, 'data = ""'))
    assert settings == Settings.load()


@pytest.mark.parametrize(
    ("key", "text", "hint"),
    [
        ("gasp_peers", "ftp://a.example", "write http"),
        ("gasp_peers", "https://a.example peer", "write http"),
        ("submit_broadcast", "yes", "write on or off"),
        ("arc_callback_token", "x" * 15, "at least 16"),
        ("report", "javascript:alert(1)", "write https://HOST/PATH or mailto:"),
        ("contact", "a@b.example", "write https://HOST/PATH or mailto:"),
        ("imprint", 'https://a.example/">', "write https://HOST/PATH or mailto:"),
        ("title", "x" * 61, "1 to 60 characters"),
    ],
)
def test_settings_of_the_bsv_overlay_and_of_pages_are_checked(key: str, text: str, hint: str) -> None:
    with pytest.raises(SettingsError, match=hint):
        Settings.load({key: text})


@pytest.mark.parametrize("text", ["A" * 42, "A" * 42 + "B", "ab" * 32, "+" * 43])
def test_issuers_of_tokens_are_public_keys(text: str) -> None:
    assert Settings.load({"delegation_roots": f"{'A' * 43}  {'A' * 43}"}).delegation_roots == ("A" * 43,)
    with pytest.raises(SettingsError, match="a principal is a public key in base64url"):
        Settings.load({"delegation_roots": text})


@pytest.mark.parametrize("variable", ["A2B_KEY", "A2B_DCT_KEY", "A2B_ARC_TOKEN", "A2B_TEST_SHARED", "A2B_REQUIRE_ALL"])
def test_variables_of_commands_and_of_the_test_suite_are_no_settings(variable: str) -> None:
    assert Settings.load(environ={variable: "1"}) == Settings.load()


@pytest.mark.parametrize("key", sorted(KEYS))
def test_every_setting_is_read_from_the_environment_and_from_the_file(key: str, tmp_path: Path) -> None:
    answers = {"port": "7", "chains": "bsv=files:/x", "limits": "read=5/1", "trusted_proxies": "::1 10.0.0.0/8"}
    answers |= {"from_height": "5", "change_blocks": "9", "ipfs_gateway": "http://[::1]:8080/x"}
    answers |= {"fetch_resolve": "a.example:443=127.0.0.1:8443", "fetch_ca_file": certificate(tmp_path)}
    answers |= {"rates": "bsv=https://a.example/spot", "rates_every": "7", "rates_max_age": "7", "log": "json requests"}
    answers |= {"metrics": "[::1]:7", "public_url": "https://a.example"}
    answers |= {"gasp_peers": "https://a.example", "submit_broadcast": "on", "arc_callback_token": "x" * 16}
    answers |= {"delegation_roots": "A" * 43, "relay": "on", "meaning": "off", "fetch_ports": "443", "probe": "off"}
    answers |= dict.fromkeys(("report", "contact", "imprint", "privacy", "terms"), "https://a.example/x")
    answers |= {"hide_publish": "on", "statistics": "on"}
    value = answers.get(key, "a:b")
    from_file = Settings.load(file=toml(tmp_path, f'{key} = "{value}"'))
    assert Settings.load(environ={f"A2B_{key.upper()}": value}) == from_file != Settings.load()


@pytest.mark.parametrize(
    ("variable", "hint"),
    [
        ("A2B_DATABSE", "did you mean A2B_DATABASE?"),
        ("A2B_CHAIN", "did you mean A2B_CHAINS?"),
        ("A2B_PROT", "did you mean A2B_PORT?"),
        ("A2B_port", "did you mean A2B_PORT?"),
        (
            "A2B_ZZZZZZ",
            f"known are {', '.join(f'A2B_{key.upper()}' for key in KEYS)}",
        ),
    ],
)
def test_unknown_variables_are_refused_by_name_with_a_suggestion(variable: str, hint: str) -> None:
    assert refused(environ={variable: "x"}) == f"{variable} is not a setting; {hint}"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ('prot = "1"', "did you mean port?"),
        ("A2B_PORT = 1", "did you mean port?"),
        ('[chains]\nbsv = "files:/x"', "chains in"),
        ("port = true", "is bool, and must be a string"),
        ("port = 1.5", "is float, and must be a string"),
        ("port = ", "is not TOML"),
    ],
)
def test_a_file_is_read_as_strictly_as_the_environment(text: str, hint: str, tmp_path: Path) -> None:
    assert hint in refused(file=toml(tmp_path, text))


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    assert refused(file=tmp_path / "no.toml") == (
        f"the settings file {tmp_path}/no.toml cannot be read: No such file or directory"
    )
    (tmp_path / "latin.toml").write_bytes(b'host = "\xe9"')
    assert "is not TOML" in refused(file=tmp_path / "latin.toml")


@pytest.mark.parametrize("port", ["-1", "65536", "80 80", "http", "٣", "1e3", "99999999999999999999"])
def test_ports_are_whole_numbers_of_sixteen_bits(port: str) -> None:
    assert "must be a whole number from 0 to 65535" in refused(flags={"port": port})


def test_chains_are_names_and_urls_in_order() -> None:
    settings = Settings.load(environ={"A2B_CHAINS": " bsv=files:/a%20b?network=mainnet\n\tdemo=files:x "})
    assert not settings.sample
    assert settings.chains == (ChainUrl("bsv", "files:/a%20b?network=mainnet"), ChainUrl("demo", "files:x"))


@pytest.mark.parametrize("text", ["bsv", "=files:/x", "BSV=files:/x", "bsv=", "bsv=/x", "-=files:x", "a b=files:x"])
def test_chains_that_are_not_written_as_name_and_url_are_refused(text: str) -> None:
    assert "write name=URL" in refused(flags={"chains": text})


def test_a_name_that_is_repeated_has_several_sources_in_configured_order() -> None:
    settings = Settings.load({"chains": "bsv=files:/a ltc=files:/c bsv=http://me:secret@b"})
    assert settings.sources() == {"bsv": ("files:/a", "http://me:secret@b"), "ltc": ("files:/c",)}


def test_one_source_given_twice_is_refused() -> None:
    assert "chains holds 'bsv=files:/a' twice" in refused(flags={"chains": "bsv=files:/a bsv=files:/a"})
    assert "chains is empty" in refused(flags={"chains": "  "})


def test_control_characters_are_refused_and_not_echoed() -> None:
    assert refused(flags={"host": "a\x1b[31m"}) == "host holds a control character: 'a\\x1b[31m'"


def test_a_percent_sign_of_the_data_folder_is_no_escape_of_the_database_url(tmp_path: Path) -> None:
    for name in ("My%20Data", "a%2Fb"):
        (tmp_path / name).mkdir()
        connect(Settings.load({"data": str(tmp_path / name)}).database).dispose()
        assert (tmp_path / name / "a2b.db").exists()


def test_a_data_folder_that_a_database_url_cannot_hold_is_refused() -> None:
    assert "cannot be written in a database URL" in refused(flags={"data": "what?"})


def test_secrets_are_masked_wherever_settings_are_shown() -> None:
    settings = Settings.load(
        {
            "database": "postgresql+psycopg://a2b:hunter2@db/a2b?sslpassword=hunter2",
            "chains": "bsv=http://rpc:hunter2@node:8332?token=hunter2&network=mainnet",
        }
    )
    assert masked(settings.database) == "postgresql+psycopg://a2b:***@db/a2b?sslpassword=***"
    assert [chain.shown for chain in settings.chains] == ["bsv=http://rpc:***@node:8332?token=***&network=mainnet"]


def test_a_refusal_does_not_tell_the_secret_either() -> None:
    assert "hunter2" not in refused(flags={"chains": "BSV=http://rpc:hunter2@node"})
    assert "hunter2" not in refused(environ={"A2B_JUNGLEBUS_TOKEN": "hunter2\x00"})


def test_the_token_reaches_junglebus_servers_that_have_none_of_their_own_and_is_never_shown() -> None:
    urls = "bsv=junglebus:abc other=junglebus:abc?from=9 own=junglebus:abc?token=mine demo=files:/x"
    settings = Settings.load({"chains": urls}, {"A2B_JUNGLEBUS_TOKEN": "hunter2&x=1"})
    assert [chain.url for chain in settings.chains] == [
        "junglebus:abc?token=hunter2%26x%3D1",
        "junglebus:abc?from=9&token=hunter2%26x%3D1",
        "junglebus:abc?token=mine",
        "files:/x",
    ]
    shown = str([chain.shown for chain in settings.chains])
    assert "hunter2" not in shown
    assert "mine" not in shown


PASSWORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Z", "C"]), min_size=6).filter(
    lambda text: "***" not in text
)


@given(PASSWORDS)
def test_no_password_is_shown_whatever_it_is_made_of(password: str) -> None:
    secret = f"~{password}~"
    for url in (f"http://rpc:{secret}@node:8332/path", f"postgresql://u:{secret}@h/db?host=/run"):
        assert secret not in masked(url)


@given(st.text("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-", min_size=20))
def test_no_key_in_the_path_of_a_web_address_is_shown(key: str) -> None:
    for url in (f"eth=https://node.example/v3/{key}?contract=0xaa", f"https://node.example/{key}/", f"HTTP://n/{key}"):
        shown = masked(url)
        assert shown == url.replace(f"/{key}", "/***")
        assert masked(shown) == shown


def test_a_url_without_secrets_is_shown_as_it_is() -> None:
    for url in (
        "sqlite:////srv/a2b.db",
        "files:/blocks?network=mainnet&from=1",
        "http://node:8332/",
        "postgresql://h/d",
        "https://api.avax.network/ext/bc/C/rpc?contract=0x8004a169fb4a3325136eb29fa0ceb6d2e539a432",
        "files:/blocks/of-a-chain-with-a-long-name",
    ):
        assert masked(url) == url


def test_reading_settings_imports_nothing_heavy() -> None:
    script = (
        "import sys; from indexer.settings import Settings; Settings.load({}, {'A2B_PORT': '1'});"
        "print([name for name in ('pydantic', 'sqlalchemy', 'numba', 'numpy', 'tomllib') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "[]\n"


def test_limits_are_those_of_the_program_but_for_the_configured_ones() -> None:
    limits = Settings.load({"limits": "ingest=5/60  costly=off"}).limits
    assert limits == {**LIMITS, "ingest": Quota(5, 60), "costly": None}
    assert set(Settings.load({"limits": "off"}).limits.values()) == {None}


MEANT_BY_NOBODY = "reed=1/1", "read", "read=0/1", "read=1/0", "read=1", "read=-1/1", "read=1/1/1", "off off"


@pytest.mark.parametrize("text", [*MEANT_BY_NOBODY, "read=1000000/1", "read=1/100000"])
def test_limits_that_cannot_be_meant_are_refused(text: str) -> None:
    assert "write KIND=REQUESTS/SECONDS" in refused(flags={"limits": text})


def test_trusted_proxies_are_addresses_or_networks() -> None:
    trusted_proxies = Settings.load({"trusted_proxies": "127.0.0.1 10.0.0.0/8 2001:db8::/32"}).trusted_proxies
    assert trusted_proxies == ("127.0.0.1/32", "10.0.0.0/8", "2001:db8::/32")
    assert "write addresses or networks such as" in refused(flags={"trusted_proxies": "all"})
    assert "10.0.0.1/8 has host bits set" in refused(flags={"trusted_proxies": "10.0.0.1/8"})


TWO = {"chains": "bsv=http://node:8332?from=5&zmq=tcp://node:1 ltc=files:blocks"}


@pytest.mark.parametrize(
    ("text", "urls"),
    [
        ("700", ("http://node:8332?zmq=tcp://node:1&from=700", "files:blocks?from=700")),
        ("ltc=9", ("http://node:8332?from=5&zmq=tcp://node:1", "files:blocks?from=9")),
        ("ltc=9 700", ("http://node:8332?zmq=tcp://node:1&from=700", "files:blocks?from=9")),
    ],
)
def test_reading_starts_at_the_configured_height(text: str, urls: tuple[str, ...]) -> None:
    loaded = Settings.load({**TWO, "from_height": text})
    assert tuple(chain.url for chain in loaded.chains) == urls


@pytest.mark.parametrize("text", ["-1", "1e3", "eth=5", "bsv=", "bsv=x", "=5=5", "1234567890"])
def test_a_start_that_cannot_be_meant_is_refused(text: str) -> None:
    assert "write a height of at most nine digits, or NAME=HEIGHT" in refused(flags={**TWO, "from_height": text})


@pytest.mark.parametrize(
    ("supplied", "text"),
    [
        ({"fetch_resolve": "a.example=127.0.0.1"}, "fetch_resolve: a.example=127.0.0.1 is not host:port=ip:port"),
        ({"fetch_resolve": "a.example:443=[::1]:443 b"}, "fetch_resolve: b is not host:port=ip:port"),
        ({"fetch_ports": "443 80"}, "fetch_ports is '443 80': write 443 or 443 1024-65535"),
        ({"fetch_ca_file": "/nowhere.pem"}, "fetch_ca_file is '/nowhere.pem', and cannot be read: No such file"),
        ({"fetch_ca_file": __file__}, "holds no certificate in PEM"),
        ({"ipfs_gateway": "ipfs.example"}, "ipfs_gateway is 'ipfs.example': write the part of the URL before /ipfs/"),
        ({"ipfs_gateway": "https://a.example/?x=1"}, "write the part of the URL before /ipfs/"),
        ({"ipfs_gateway": "http://u:secret@a.example/ x"}, "http://u:***@a.example/ x"),
        ({"public_url": f"http://u:secret{'s' * 100}@a.example/ x"}, "http://u:***@a.example/ x"),
        ({"change_blocks": "-1"}, "change_blocks is '-1', and must be a whole number of blocks"),
        ({"change_blocks": "1e3"}, "must be a whole number of blocks"),
    ],
)
def test_wrong_settings_of_the_fetcher_are_named(supplied: dict[str, str], text: str) -> None:
    answer = refused(flags=supplied)
    assert text in answer
    assert "secret" not in answer


def test_the_fetcher_gets_a_gateway_with_its_password(tmp_path: Path) -> None:
    settings = Settings.load(
        {"ipfs_gateway": "http://me:secret@127.0.0.1:8080", "fetch_ca_file": certificate(tmp_path)}
    )
    assert settings.ipfs_gateway == "http://me:secret@127.0.0.1:8080"
    assert settings.change_blocks == 1_008


KEY = "ab" * 32


def test_feeds_of_rates_are_read_in_order_and_shown_without_their_secrets() -> None:
    text = f"bsv=https://me:pw@a.example:8443/v6/SECRET/latest?app_id=SECRET#{KEY.upper()}  USD=http://127.0.0.1/x"
    loaded = Settings.load({"rates": text})
    signed, plain = loaded.rates
    assert (signed.base, signed.key, signed.source) == ("BSV", KEY, "https://a.example:8443")
    assert signed.url == "https://me:pw@a.example:8443/v6/SECRET/latest?app_id=SECRET"
    assert (plain.base, plain.key, plain.source) == ("USD", "", "http://127.0.0.1")
    assert signed.shown == f"BSV=https://a.example:8443/***#{KEY}"
    assert plain.shown == "USD=http://127.0.0.1/***"
    assert len({feed.name for feed in (signed, plain, signed._replace(key=""), signed._replace(base="EUR"))}) == 4
    assert "SECRET" not in signed.name
    assert Settings.load().rates == ()


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("https://a.example/SECRET", "its word number 1 is not a feed"),
        ("BSV=ftp://a.example/SECRET", "the feed number 1 (BSV) names an unknown service"),
        ("BSV=https://b.example BSV", "its word number 2 is not a feed"),
        ("B$V=https://a.example/SECRET", "its word number 1 is not a feed"),
        ("BSV=https:///SECRET", "has no host"),
        ("BSV=https://a.example:99999/SECRET", "has no host or no port"),
        ("BSV=https://[::1/SECRET", "has no host"),
        ("BSV=https://a.example/SECRET#" + "ab" * 31, "has a fragment that is not a key"),
        ("BSV=https://a.example/SECRET#" + "xy" * 32, "has a fragment that is not a key"),
        ("BSV=https://a.example/x BSV=https://a.example/x", "BSV=https://a.example/*** twice"),
        (" ".join(f"BSV=https://a.example/{n}" for n in range(17)), "at most 16"),
        ("BSV=https://a.example/SECRET\x07", "holds a control character: ***"),
    ],
)
def test_what_is_no_feed_of_rates_is_refused_without_telling_secrets(text: str, reported: str) -> None:
    message = refused(flags={"rates": text})
    assert reported in message
    assert "SECRET" not in message


@pytest.mark.parametrize("name", ["rates_every", "rates_max_age"])
@pytest.mark.parametrize("value", ["0", "-1", "1.5", "x", "9999999", ""])
def test_times_of_rates_are_whole_seconds(name: str, value: str) -> None:
    if not value:
        assert getattr(Settings.load({name: value}), name) > 1
        return
    assert f"{name} is '{value}'" in refused(flags={name: value})
