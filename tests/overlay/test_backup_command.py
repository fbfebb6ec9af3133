"""`a2b backup` and `a2b restore` as an operator uses them: while the program runs, into a new folder."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from indexer.settings import Settings, SettingsError
from indexer.store import backup as file_of
from indexer.store import connect
from indexer.store.backup import BackupError
from indexer.store.schema import cards
from overlay.api import identity_key
from overlay.commands import backup
from overlay.commands.backup import restored_keys
from overlay.systems.relay.store import RelayStore
from tests.databases import Cluster
from tests.indexer.store.test_backup import contents
from tests.indexer.store.test_one_database import COMPONENTS
from tests.running import SAMPLE, Running, a2b_here


def indexed(folder: Path, *database: str) -> None:
    """Read the packaged chain into a database, and stop."""
    with Running(
        "index", "--chains", SAMPLE, "--metrics", ":0", "--data", str(folder / "data"), *database, cwd=folder
    ) as running:
        running.until(lambda: "125" in running.err)
        running.until(lambda: state_hash(folder, *database) is not None)
        assert running.stop()[0] == 0


def state_hash(folder: Path, *database: str) -> str | None:
    done = a2b_here("status", "--json", "--data", str(folder / "data"), *database, cwd=folder)
    hashed = json.loads(done.stdout)["stateHash"].get("demo") if done.returncode == 0 else None
    return hashed["hash"] if hashed and hashed["height"] == 125 else None


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_what_is_restored_and_read_again_is_the_same_registry(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    old, new, file = tmp_path / "old", tmp_path / "new", tmp_path / "backup.gz"
    for folder in (old, new):
        folder.mkdir()
    indexed(old)
    engine = connect(f"sqlite:///{old}/data/a2b.db")
    for use in COMPONENTS:
        use(engine)
    with Running("up", "--port", "0", "--data", str(old / "data"), cwd=old) as running:
        running.until_ready()
        done = a2b_here("backup", str(file), "--data", str(old / "data"), cwd=old)
        assert (done.returncode, "the keys of this server" in done.stdout) == (0, True), done.stderr
        running.stop()
    assert file.stat().st_mode & 0o777 == 0o600
    url = f"sqlite:///{new}/data/a2b.db"
    if kind == "postgresql":
        cluster: Cluster = request.getfixturevalue("postgresql")
        url = cluster.new()
    database = ("--database", url)
    keys = ("--identity-key", str(new / "keys.json"))
    done = a2b_here("restore", str(file), "--data", str(new / "data"), *database, *keys, cwd=new)
    assert (done.returncode, done.stdout.startswith("restored")) == (0, True), done.stderr
    assert (new / "keys.json").stat().st_mode & 0o777 == 0o600
    assert json.loads((new / "keys.json").read_bytes()) == json.loads((old / "data" / "identity.json").read_bytes())
    indexed(new, *database)
    again = connect(url)
    assert state_hash(new, *database) == state_hash(old) is not None
    assert RelayStore(again).ledger.faults() == []
    before, after = contents(engine), contents(again)
    for name in before.keys() - {"meta", "checks", "locators", "sightings", "subscriptions", "fetches", "servings"}:
        assert after[name] == before[name], name
    exports = []
    for folder, more in ((old, ()), (new, database)):
        assert (
            a2b_here("export", str(folder / "facts"), "--data", str(folder / "data"), *more, cwd=folder).returncode == 0
        )
        exports.append((folder / "facts").read_bytes())
    assert exports[0] == exports[1]
    done = a2b_here("restore", str(file), "--data", str(new / "data"), *database, *keys, cwd=new)
    assert (done.returncode, "restore into a new database" in done.stderr) == (3, True)
    engine.dispose()
    again.dispose()


def test_wrong_files_and_other_keys_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "data"))
    for arguments, code, why in (
        (("backup", str(tmp_path / "b")), 3, "there is no database"),
        (("restore", str(tmp_path / "b")), 2, "is not there"),
    ):
        done = a2b_here(*arguments, *data, cwd=tmp_path)
        assert (done.returncode, why in done.stderr) == (code, True), done.stderr
    assert not (tmp_path / "data").exists()
    connect_folder = tmp_path / "first"
    connect_folder.mkdir()
    connect(f"sqlite:///{connect_folder}/a2b.db").dispose()
    done = a2b_here("backup", str(tmp_path / "b"), "--data", str(connect_folder), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, f"wrote 0 rows and no keys of this server to {tmp_path}/b\n")
    (tmp_path / "broken").write_bytes((tmp_path / "b").read_bytes()[:-20])
    done = a2b_here("restore", str(tmp_path / "broken"), *data, cwd=tmp_path)
    assert (done.returncode, "cut off" in done.stderr) == (1, True), done.stderr
    head, rest = (tmp_path / "b").read_bytes().split(b"\n", 1)
    keys = {"ed25519": "11" * 32, "secp256k1": "22" * 32}
    (tmp_path / "keys").write_bytes(json.dumps(json.loads(head) | {"keys": keys}).encode() + b"\n" + rest)
    (tmp_path / "mine.json").write_text(json.dumps(keys | {"ed25519": "33" * 32}))
    (tmp_path / "mine.json").chmod(0o600)
    done = a2b_here(
        "restore", str(tmp_path / "keys"), *data, "--identity-key", str(tmp_path / "mine.json"), cwd=tmp_path
    )
    assert (done.returncode, "holds other keys than the backup" in done.stderr) == (2, True), done.stderr


def test_a_restore_that_fails_leaves_neither_rows_nor_keys(tmp_path: Path) -> None:
    """Whatever fails: a damaged row, a database that is not empty, a file of keys that cannot be first."""
    connect(f"sqlite:///{tmp_path}/old.db").dispose()
    use = ("--data", str(tmp_path / "data"), "--identity-key", str(tmp_path / "keys.json"))
    first = identity_key.read_or_create(tmp_path / "keys.json")
    done = a2b_here("backup", "whole", *use, "--database", f"sqlite:///{tmp_path}/old.db", cwd=tmp_path)
    assert (done.returncode, "the keys of this server" in done.stdout) == (0, True), done.stderr
    (tmp_path / "keys.json").unlink()
    whole = (tmp_path / "whole").read_bytes()
    (tmp_path / "broken").write_bytes(whole[:-20])
    done = a2b_here("restore", "broken", *use, cwd=tmp_path)
    assert (done.returncode, "cut off" in done.stderr) == (1, True), done.stderr
    assert not (tmp_path / "keys.json").exists()

    nowhere = ("--data", str(tmp_path / "data"), "--identity-key", str(tmp_path / "missing" / "keys.json"))
    done = a2b_here("restore", "whole", *nowhere, cwd=tmp_path)
    assert (done.returncode, "cannot be created" in done.stderr) == (2, True), done.stderr
    done = a2b_here("restore", "whole", *use, cwd=tmp_path)  # as the database is still empty
    assert (done.returncode, done.stdout.startswith("restored")) == (0, True), done.stderr
    assert identity_key.read(tmp_path / "keys.json") == first


@pytest.mark.parametrize("moment", ["after the commit", "in the commit"])
def test_rows_are_never_there_without_their_keys_and_keys_without_rows_are_no_obstacle(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while the progress bar ends; the connection to the database is lost before its reply to the commit."""
    source = connect(f"sqlite:///{tmp_path}/old.db")
    with source.begin() as connection:
        connection.execute(cards.insert(), [{"sha256": b"1" * 32, "body": b"{}"}])
    source.dispose()
    first = identity_key.read_or_create(tmp_path / "old.json")
    use = ("--data", str(tmp_path / "data"), "--identity-key", str(tmp_path / "keys.json"))
    done = a2b_here(
        "backup", "whole", "--database", f"sqlite:///{tmp_path}/old.db", "--identity-key", str(tmp_path / "old.json"),
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr

    @contextmanager
    def interrupted(*_: str) -> Iterator[Callable[[int, int], None]]:
        yield lambda _done, _total: None
        raise KeyboardInterrupt

    def lost(_engine: object, _lines: object, _progress: object, before_commit: Callable[[], None]) -> int:
        before_commit()
        raise BackupError("the connection is lost")

    with monkeypatch.context() as patched:
        if moment == "after the commit":
            patched.setattr(backup, "progress_of", interrupted)
        else:
            patched.setattr(file_of, "restore", lost)
        settings = Settings.load({"data": tmp_path / "data", "identity_key": str(tmp_path / "keys.json")})
        patched.setattr(backup, "settings_of", lambda *_args, **_kinds: settings)
        with pytest.raises((KeyboardInterrupt, BackupError)):
            backup.restore(Namespace(file=tmp_path / "whole"))
    assert identity_key.read(tmp_path / "keys.json") == first
    restored = connect(f"sqlite:///{tmp_path}/data/a2b.db")
    with restored.connect() as connection:
        assert len(connection.execute(cards.select()).all()) == (1 if moment == "after the commit" else 0)
    restored.dispose()
    done = a2b_here("restore", "whole", *use, cwd=tmp_path)
    again = (3, "holds cards already") if moment == "after the commit" else (0, "")
    assert (done.returncode, again[1] in done.stderr) == (again[0], True), done.stderr
    assert identity_key.read(tmp_path / "keys.json") == first


def test_keys_that_were_there_are_there_after_a_restore_that_fails(tmp_path: Path) -> None:
    file, others = tmp_path / "keys.json", tmp_path / "others.json"
    settings = Settings.load({"identity_key": str(file)})
    first, other = identity_key.read_or_create(file), identity_key.read_or_create(others)
    restored_keys(settings, first.as_json())()
    assert identity_key.read(file) == first
    file.unlink()
    put = restored_keys(settings, first.as_json())
    assert not file.exists()
    others.rename(file)  # a server that starts meanwhile makes keys of its own
    with pytest.raises(SettingsError, match="holds other keys"):
        put()
    with pytest.raises(SettingsError, match="holds other keys"):
        restored_keys(settings, first.as_json())
    assert identity_key.read(file) == other
