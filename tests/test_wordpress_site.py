"""The installed site: what a grader's author may count on, and what is never in it."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import sqlite3
import stat
import subprocess
from pathlib import Path

import pytest

from refcompare.errors import EnvironmentFailure
from refcompare.wordpress import site as site_module
from refcompare.wordpress.php import Php
from refcompare.wordpress.releases import Release
from refcompare.wordpress.site import ADMIN_EMAIL, ADMIN_PASSWORD, ADMIN_USER, Site, ensure_site

pytestmark = pytest.mark.wordpress


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, for tests that install."""
    monkeypatch.setenv("REFCOMPARE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def evaluate(site: Site, php: Php, database: Path, code: str, root: Path | None = None) -> object:
    """Run ``code`` in the booted site through WP-CLI, over a copy of the snapshot, and give its JSON."""
    database.mkdir(exist_ok=True)
    shutil.copy(site.database, database)
    command = [str(php.binary), str(site.release.wp_cli), "--allow-root", f"--path={root or site.root}"]
    process = subprocess.run(
        [*command, "eval", f"echo json_encode( {code} );"],
        env={"PATH": os.defpath, "HOME": str(database), "REFCOMPARE_DB_DIR": str(database)},
        cwd=database,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


def rows(database: Path, query: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(f"file:{database}?mode=ro&immutable=1", uri=True)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


# What a grader's author may count on


def test_the_default_release_boots(site: Site, php: Php, tmp_path: Path):
    code = """array(
        'version'  => get_bloginfo( 'version' ),
        'theme'    => get_stylesheet(),
        'block'    => wp_is_block_theme(),
        'active'   => get_option( 'active_plugins' ),
        'plugins'  => array_keys( get_plugins() ),
        'dropins'  => array_keys( get_dropins() ),
        'mu'       => get_mu_plugins(),
        'debug'    => WP_DEBUG && SCRIPT_DEBUG,
        'display'  => WP_DEBUG_DISPLAY || WP_DEBUG_LOG,
        'type'     => wp_get_environment_type(),
        'home'     => home_url(),
        'url'      => site_url(),
        'driver'   => get_class( $GLOBALS['wpdb'] ),
        'cron'     => DISABLE_WP_CRON,
        'sentinel' => get_filesystem_method(),
        'locale'   => get_locale(),
    )"""
    assert evaluate(site, php, tmp_path / "database", code) == {
        "version": "7.1.1",
        "theme": "twentytwentyfive",
        "block": True,
        "active": [],
        "plugins": ["sqlite-database-integration/load.php"],
        "dropins": ["db.php"],
        "mu": [],
        "debug": True,
        "display": False,
        "type": "local",
        "home": "http://localhost:8888",
        "url": "http://localhost:8888",
        "driver": "WP_SQLite_DB",
        "cron": True,
        "sentinel": "direct",
        "locale": "en_US",
    }


def test_the_administrator_is_known(site: Site, php: Php, tmp_path: Path):
    code = f"""array(
        wp_authenticate( '{ADMIN_USER}', '{ADMIN_PASSWORD}' )->roles,
        get_option( 'admin_email' ),
        count_users()['total_users'],
    )"""
    assert evaluate(site, php, tmp_path / "database", code) == [["administrator"], ADMIN_EMAIL, 1]


def test_the_database_is_the_one_that_the_environment_names(site: Site, php: Php, tmp_path: Path):
    before = site.database.read_bytes()
    written = evaluate(site, php, tmp_path / "database", "update_option( 'refcompare_probe', 1 )")
    assert written is True
    copy = tmp_path / "database" / "wordpress.sqlite"
    assert rows(copy, "SELECT option_value FROM wp_options WHERE option_name = 'refcompare_probe'") == [
        ("1",)
    ]
    assert site.database.read_bytes() == before
    assert [path.name for path in site.database.parent.iterdir()] == ["wordpress.sqlite"]


def test_without_that_variable_the_site_reads_the_snapshot_beside_it(site: Site):
    config = (site.root / "wp-config.php").read_text()
    assert "dirname( __DIR__ ) . '/database'" in config
    assert site.database == site.root.parent / "database" / "wordpress.sqlite"


def test_the_site_works_at_another_path(site: Site, php: Php, tmp_path: Path):
    moved = tmp_path / "elsewhere"
    shutil.copytree(site.root, moved)
    code = "array( get_bloginfo( 'version' ), get_class( $GLOBALS['wpdb'] ), ABSPATH )"
    assert evaluate(site, php, tmp_path / "database", code, root=moved) == [
        site.release.version,
        "WP_SQLite_DB",
        f"{moved}/",
    ]


# What is never in it


def test_nothing_in_the_snapshot_names_a_path_or_a_moment_of_the_installation(site: Site):
    content = site.database.read_bytes()
    assert str(site.root.parent.parent).encode() not in content
    assert b".partial" not in content
    names = [name for (name,) in rows(site.database, "SELECT option_name FROM wp_options")]
    assert [name for name in names if "transient" in str(name) or name == "doing_cron"] == []


def test_the_snapshot_is_one_file_that_opens_in_a_read_only_directory(site: Site):
    assert rows(site.database, "PRAGMA journal_mode") == [("delete",)]
    assert rows(site.database, "PRAGMA integrity_check") == [("ok",)]
    # Bytes 18 and 19 of the file say 1 for a rollback journal and 2 for WAL (SQLite file format).
    assert site.database.read_bytes()[18:20] == b"\x01\x01"


def test_the_site_holds_no_plugin_but_the_database_and_no_directory_of_uploads(site: Site):
    content = site.root / "wp-content"
    assert {path.name for path in content.iterdir()} == {"db.php", "index.php", "plugins", "themes"}
    assert {path.name for path in (content / "plugins").iterdir()} == {
        "index.php",
        "sqlite-database-integration",
    }


def test_the_site_is_readable_by_every_user(site: Site):
    for path in [site.root.parent, *site.root.parent.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o755 if path.is_dir() else 0o644), path


# How it is made


def recording(php: Php, directory: Path, then: str) -> Php:
    """Give a PHP that writes down its environment and arguments, and does ``then``."""
    program = directory / "php"
    program.write_text(
        f'#!/bin/sh\nenv > "{directory}/environment"\necho "$@" > "{directory}/arguments"\n{then}\n'
    )
    program.chmod(0o755)
    return dataclasses.replace(php, binary=program)


def test_a_site_is_installed_once_and_alike_each_time(
    site: Site, release: Release, php: Php, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("GITHUB_TOKEN", "secret")
    before = os.umask(0o077)
    try:
        watched = recording(php, tmp_path, f'exec "{php.binary}" "$@"')
        again = ensure_site(release, watched)
    finally:
        os.umask(before)
    assert again.root.is_relative_to(cache)
    assert again.digest == site.digest
    query = (
        "SELECT option_id, option_name, option_value FROM wp_options"
        " WHERE option_name NOT IN ('admin_email_lifespan')"
    )
    assert rows(again.database, query) == rows(site.database, query)
    schema = "SELECT type, name, sql FROM sqlite_master ORDER BY name"
    assert rows(again.database, schema) == rows(site.database, schema)
    test_the_site_is_readable_by_every_user(again)

    environment = (tmp_path / "environment").read_text()
    assert "REFCOMPARE_DB_DIR" in environment
    assert "secret" not in environment
    (tmp_path / "environment").unlink()
    assert ensure_site(release, watched) == again
    assert not (tmp_path / "environment").exists(), "a cached site starts no PHP"

    (again.root / "wp-config.php").unlink()
    assert ensure_site(release, watched) == again
    assert (again.root / "wp-config.php").is_file()


def test_an_installation_that_fails_says_what_wordpress_said_and_leaves_no_cache(
    release: Release, php: Php, cache: Path, tmp_path: Path
):
    broken = recording(php, tmp_path, "echo 'Error: the table is on fire'; exit 1")
    with pytest.raises(EnvironmentFailure, match="the table is on fire"):
        ensure_site(release, broken)
    assert [path.name for path in (cache / "sites").iterdir() if not path.name.endswith(".lock")] == []


def test_an_installation_that_does_nothing_is_a_failure(
    release: Release, php: Php, cache: Path, tmp_path: Path
):
    with pytest.raises(EnvironmentFailure, match="was not installed"):
        ensure_site(release, recording(php, tmp_path, "exit 0"))


def test_an_installation_that_hangs_is_ended(
    release: Release, php: Php, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(site_module, "_TIMEOUT_SECONDS", 0.2)
    with pytest.raises(EnvironmentFailure, match=r"more than 0\.2 seconds"):
        ensure_site(release, recording(php, tmp_path, "exec sleep 60"))


def test_another_release_is_another_site(release: Release):
    digest = site_module.site_digest(release)
    assert site_module.site_digest(dataclasses.replace(release, digest="0" * 64)) != digest


def test_a_site_is_the_same_whichever_php_installed_it(site: Site):
    """PHP 8.4 would make another hash of the password than the ones before it."""
    assert rows(site.database, "SELECT substr(user_pass, 1, 10) FROM wp_users") == [("$wp$2y$10$",)]
