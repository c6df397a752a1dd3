"""Fetching a release: from where, what is checked, and what is left when it goes wrong."""

from __future__ import annotations

import datetime
import hashlib
import http.client
import io
import ipaddress
import os
import stat
import subprocess
import sys
import tarfile
import textwrap
import time
import urllib.request
import zipfile
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refcompare import paths
from refcompare.errors import EnvironmentFailure, UsageError
from refcompare.paths import cache_directory
from refcompare.wordpress.releases import ensure_release, find_release, list_releases
from refcompare.wordpress.sources import archives, download, npm, official
from refcompare.wordpress.sources.interface import SourceFailure, belongs_to_core
from tests.wordpress_archives import (
    PHAR,
    PLUGIN_FILES,
    PRISTINE,
    Served,
    Server,
    core_files,
    npm_tarball,
    serving,
    tarball_of,
    zip_of,
)

PLUGIN_ZIP = zip_of(PLUGIN_FILES, "sqlite-database-integration/")
PINS = {
    "SQLITE_PLUGIN_SHA256": (hashlib.sha256(PLUGIN_ZIP).hexdigest(),),
    "WP_CLI_SHA512": hashlib.sha512(PHAR).hexdigest(),
}
ENDPOINTS = {
    "REFCOMPARE_WORDPRESS_URL": "/release/",
    "REFCOMPARE_NIGHTLY_URL": "/nightly.zip",
    "REFCOMPARE_SQLITE_PLUGIN_URL": "/plugin.zip",
    "REFCOMPARE_WP_CLI_URL": "/wp-cli.phar",
}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own for each test, and a PATH without npm."""
    monkeypatch.setenv("REFCOMPARE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path / "cache"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A mirror that publishes WordPress 6.9 and its tools."""
    with serving() as running:
        point_at(running, monkeypatch)
        running.publish("/release/wordpress-6.9.zip", zip_of(core_files("6.9"), "wordpress/"), "sha1", "md5")
        yield running


def point_at(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, path in ENDPOINTS.items():
        monkeypatch.setenv(variable, server.url + path)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for name, value in PINS.items():
        monkeypatch.setattr(official, name, value)
    monkeypatch.setattr(download, "FIRST_WAIT_SECONDS", 0)
    server.publish("/plugin.zip", PLUGIN_ZIP)
    server.publish("/wp-cli.phar", PHAR)


def files_below(directory: Path) -> set[str]:
    return {path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file()}


def leftovers(cache: Path) -> set[str]:
    """Everything in the cache but lock files."""
    return {name for name in files_below(cache) if not name.endswith(".lock")} if cache.exists() else set()


# Official zips


def test_an_official_release_is_fetched_and_unpacked(server: Server, cache: Path):
    said: list[str] = []
    release = ensure_release("6.9", progress=said.append)
    assert release.version == "6.9"
    assert release.source == f"{server.url}/release/wordpress-6.9.zip"
    assert files_below(release.core) == PRISTINE
    assert files_below(release.sqlite_plugin) == set(PLUGIN_FILES)
    assert release.wp_cli.read_bytes() == PHAR
    assert release.core.is_relative_to(cache)
    assert any("6.9" in sentence for sentence in said)


def test_a_cached_release_needs_no_network(server: Server):
    first = ensure_release("6.9")
    server.requests.clear()
    assert ensure_release("6.9") == first
    assert find_release("6.9") == first
    assert list_releases() == (first,)
    assert server.requests == []


def test_the_zero_of_a_series_first_release_is_not_part_of_its_name(server: Server):
    assert ensure_release("6.9.0") == ensure_release("6.9")


def test_the_digest_is_that_of_the_content_wherever_the_cache_lies(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    first = ensure_release("6.9")
    monkeypatch.setenv("REFCOMPARE_CACHE_DIR", str(tmp_path / "another"))
    second = ensure_release("6.9")
    assert first.core != second.core
    assert first.digest == second.digest
    server.publish(
        "/release/wordpress-6.9.1.zip", zip_of(core_files("6.9.1", **{"index.php": "<?php // other"})), "sha1"
    )
    assert ensure_release("6.9.1").digest != first.digest


def test_an_md5_is_enough_where_no_sha1_is_published(server: Server):
    del server.files["/release/wordpress-6.9.zip.sha1"]
    assert ensure_release("6.9").version == "6.9"


def test_a_checksum_may_carry_the_file_name(server: Server):
    path = "/release/wordpress-6.9.zip"
    digest = hashlib.sha1(bytes(server.files[path])).hexdigest()  # type: ignore[arg-type]
    server.files[f"{path}.sha1"] = f"{digest.upper()}  wordpress-6.9.zip\n".encode()
    assert ensure_release("6.9").version == "6.9"


@pytest.mark.parametrize(
    "checksum", [b"0" * 40, b"<html>not found</html>", b"", b"0" * 32], ids=["wrong", "page", "empty", "md5"]
)
def test_a_download_that_does_not_match_its_checksum_leaves_no_cache(
    server: Server, cache: Path, checksum: bytes
):
    server.files["/release/wordpress-6.9.zip.sha1"] = checksum
    with pytest.raises(EnvironmentFailure, match="checksum"):
        ensure_release("6.9")
    assert leftovers(cache) == set()
    assert list_releases() == ()


def test_a_version_without_any_checksum_is_not_used(server: Server, cache: Path):
    server.files["/release/wordpress-6.8.zip"] = zip_of(core_files("6.8"), "wordpress/")
    with pytest.raises(EnvironmentFailure, match="no published checksum"):
        ensure_release("6.8")
    assert server.asked("/release/wordpress-6.8.zip") == 0
    assert leftovers(cache) == set()


def test_a_version_that_does_not_exist_is_asked_for_once(server: Server):
    with pytest.raises(EnvironmentFailure, match=r"wordpress-5\.99\.zip"):
        ensure_release("5.99")
    assert server.asked("/release/wordpress-5.99.zip.sha1") == 1


def test_a_truncated_download_is_tried_again(server: Server):
    body = server.files["/release/wordpress-6.9.zip"]
    assert isinstance(body, bytes)
    server.files["/release/wordpress-6.9.zip"] = [Served(body, truncated=True, times=2), Served(body)]
    assert ensure_release("6.9").version == "6.9"
    assert server.asked("/release/wordpress-6.9.zip") == 3


def test_a_download_that_stays_truncated_leaves_no_cache(server: Server, cache: Path):
    body = server.files["/release/wordpress-6.9.zip"]
    assert isinstance(body, bytes)
    server.files["/release/wordpress-6.9.zip"] = [Served(body, truncated=True)]
    with pytest.raises(EnvironmentFailure, match=r"wordpress-6\.9\.zip"):
        ensure_release("6.9")
    assert server.asked("/release/wordpress-6.9.zip") == download.ATTEMPTS
    assert leftovers(cache) == set()


def test_a_busy_server_is_asked_again(server: Server):
    server.files["/wp-cli.phar"] = [Served(status=503, times=1), Served(status=429, times=1), Served(PHAR)]
    assert ensure_release("6.9").wp_cli.read_bytes() == PHAR
    assert server.asked("/wp-cli.phar") == 3


def test_a_server_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, server: Server):
    monkeypatch.setenv("REFCOMPARE_WORDPRESS_URL", "http://127.0.0.1:1/")
    with pytest.raises(EnvironmentFailure, match=r"http://127\.0\.0\.1:1/wordpress-6\.9\.zip"):
        ensure_release("6.9")


def test_a_download_larger_than_the_cap_is_stopped(
    server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(official, "_CORE_BYTES", 100)
    with pytest.raises(EnvironmentFailure, match="larger than"):
        ensure_release("6.9")
    assert leftovers(cache) == set()


def test_a_download_that_takes_too_long_is_stopped(server: Server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(download, "SOCKET_TIMEOUT_SECONDS", 0.05)
    monkeypatch.setattr(download, "ATTEMPTS", 2)
    body = server.files["/release/wordpress-6.9.zip"]
    assert isinstance(body, bytes)
    server.files["/release/wordpress-6.9.zip"] = [Served(body, stall=True)]
    with pytest.raises(EnvironmentFailure, match="timed out"):
        ensure_release("6.9")


def test_a_redirect_is_followed_on_http_but_not_to_a_file(server: Server, tmp_path: Path):
    server.files["/wp-cli.phar"] = [Served(status=302, headers={"Location": f"{server.url}/moved.phar"})]
    server.files["/moved.phar"] = PHAR
    assert ensure_release("6.9").wp_cli.read_bytes() == PHAR
    secret = tmp_path / "secret"
    secret.write_text("secret")
    server.files["/elsewhere"] = [Served(status=302, headers={"Location": secret.as_uri()})]
    with pytest.raises(SourceFailure, match="HTTP 302"):
        download.download(f"{server.url}/elsewhere", tmp_path / "out", maximum_bytes=100)


def test_a_redirect_never_leaves_https():
    handler = download._Redirects()
    request = urllib.request.Request("https://example.org/a")
    with pytest.raises(SourceFailure, match="not followed"):
        handler.redirect_request(
            request, io.BytesIO(), 302, "Found", http.client.HTTPMessage(), "http://example.org/a"
        )


@pytest.mark.parametrize("address", ["file:///etc/passwd", "ftp://example.org/a", "/etc/passwd"])
def test_only_http_addresses_are_fetched(tmp_path: Path, address: str):
    with pytest.raises(SourceFailure, match="neither an http nor an https"):
        download.download(address, tmp_path / "out", maximum_bytes=100)


def test_a_release_that_states_another_version_is_not_used(server: Server, cache: Path):
    server.publish("/release/wordpress-6.7.zip", zip_of(core_files("6.6"), "wordpress/"), "sha1")
    with pytest.raises(EnvironmentFailure, match=r"it is WordPress 6\.6, not 6\.7"):
        ensure_release("6.7")
    assert leftovers(cache) == set()


def test_a_zip_without_wordpress_is_not_used(server: Server):
    server.publish("/release/wordpress-6.7.zip", zip_of({"readme.txt": "nothing"}), "sha1")
    with pytest.raises(EnvironmentFailure, match=r"holds no wp-includes/version\.php"):
        ensure_release("6.7")


def test_tools_that_are_not_the_pinned_ones_are_not_used(server: Server, cache: Path):
    server.files["/wp-cli.phar"] = b"<?php // another"
    with pytest.raises(EnvironmentFailure, match="sha512"):
        ensure_release("6.9")
    server.files["/wp-cli.phar"] = PHAR
    server.files["/plugin.zip"] = zip_of({**PLUGIN_FILES, "load.php": "<?php // another"})
    with pytest.raises(EnvironmentFailure, match="sha256"):
        ensure_release("6.9")
    assert leftovers(cache) == set()


def test_the_second_address_of_the_plugin_is_tried_when_the_first_fails(server: Server, tmp_path: Path):
    server.files["/wrong.zip"] = b"not the plugin"
    addresses = tuple(f"{server.url}/{name}" for name in ("gone.zip", "wrong.zip", "plugin.zip"))
    endpoints = official.Endpoints(sqlite_plugin=addresses, wp_cli=f"{server.url}/wp-cli.phar")
    official.fetch_tools(tmp_path, endpoints, lambda _: None)
    assert files_below(tmp_path / "sqlite-database-integration") == set(PLUGIN_FILES)


@pytest.mark.parametrize("request_", ["..", "7.1/../../x", "7", "latest", "7.1;ls", "nope", "7.1-RC1x", ""])
def test_a_request_that_names_nothing_is_a_usage_error(
    request_: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")  # a name beside it must not be taken for an archive
    if request_ == "":
        request_ = "./missing"
    with pytest.raises(UsageError):
        ensure_release(request_)


# The cache directory


def test_the_cache_is_where_the_variable_says(cache: Path):
    assert cache_directory() == cache
    assert cache.is_dir()


def test_a_user_has_a_cache_in_the_usual_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("REFCOMPARE_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert cache_directory().is_relative_to(tmp_path)
    assert cache_directory().name == "refcompare"


def test_root_has_a_cache_that_other_users_can_reach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("REFCOMPARE_CACHE_DIR")
    assert Path("/var/cache/refcompare") == paths.ROOT_CACHE
    monkeypatch.setattr(paths, "ROOT_CACHE", tmp_path / "var" / "cache" / "refcompare")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    before = os.umask(0o077)
    try:
        made = cache_directory()
    finally:
        os.umask(before)
    assert made == tmp_path / "var" / "cache" / "refcompare"
    for directory in (made, *list(made.parents)[:2]):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o755


# What is kept in the cache


def test_a_damaged_cache_is_fetched_again(server: Server):
    release = ensure_release("6.9")
    (release.core / "wp-load.php").unlink()
    assert list_releases() == ()
    assert find_release("6.9") is None
    assert ensure_release("6.9") == release
    (release.core / "index.php").write_text("")
    assert (ensure_release("6.9").core / "index.php").read_text() == "<?php // index"
    (release.core.parent / "release.json").write_text("{")
    assert ensure_release("6.9") == release


def test_an_edit_that_keeps_the_size_is_found_by_a_full_check(server: Server):
    release = ensure_release("6.9")
    edited = release.core / "wp-load.php"
    edited.write_text("<?php // evil")
    server.requests.clear()
    assert ensure_release("6.9") == release
    assert server.requests == []
    assert ensure_release("6.9", verify=True) == release
    assert edited.read_text() == "<?php // load"


def test_the_cache_is_readable_by_every_user_whatever_the_umask(server: Server, cache: Path):
    before = os.umask(0o077)
    try:
        ensure_release("6.9")
    finally:
        os.umask(before)
    for path in [cache, *cache.rglob("*")]:
        if path.name.endswith(".lock"):
            continue
        assert stat.S_IMODE(path.stat().st_mode) == (0o755 if path.is_dir() else 0o644), path


def test_a_cache_that_cannot_be_written_is_an_environment_failure(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("REFCOMPARE_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with pytest.raises(EnvironmentFailure, match="REFCOMPARE_CACHE_DIR"):
        ensure_release("6.9")


# Another process that fetches from the same mirror into the same cache.
FETCH = """
import sys
from refcompare.wordpress.releases import ensure_release
from refcompare.wordpress.sources import official
official.SQLITE_PLUGIN_SHA256 = {SQLITE_PLUGIN_SHA256!r}
official.WP_CLI_SHA512 = {WP_CLI_SHA512!r}
print(ensure_release("6.9", progress=lambda sentence: print(sentence, flush=True)).digest)
""".format(**PINS)


def fetching() -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", FETCH], stdout=subprocess.PIPE, text=True)


def eventually(condition: bool, since: float) -> bool:
    assert time.monotonic() - since < 20, "nothing happened for 20 seconds"
    time.sleep(0.01)
    return condition


def test_two_processes_that_fetch_at_once_do_the_work_once(server: Server):
    body = server.files["/release/wordpress-6.9.zip"]
    assert isinstance(body, bytes)
    server.files["/release/wordpress-6.9.zip"] = [Served(body, seconds=0.7)]  # long enough to overlap
    with fetching() as one, fetching() as other:
        outputs = [process.communicate(timeout=60)[0] for process in (one, other)]
    assert [one.returncode, other.returncode] == [0, 0]
    assert outputs[0].splitlines()[-1] == outputs[1].splitlines()[-1]
    assert server.asked("/release/wordpress-6.9.zip") == 1


def test_a_process_that_waits_for_another_says_so(server: Server):
    body = server.files["/release/wordpress-6.9.zip"]
    assert isinstance(body, bytes)
    server.files["/release/wordpress-6.9.zip"] = [Served(body, stall=True, times=1), Served(body)]
    start = time.monotonic()
    with fetching() as one:
        while not server.asked("/release/wordpress-6.9.zip"):
            eventually(False, start)
        with fetching() as other:
            assert other.stdout is not None
            assert "Waiting for another process" in other.stdout.readline()
            server.released.set()  # the first one's download now ends early, and is tried again
            other.communicate(timeout=60)
        one.communicate(timeout=60)
    assert (one.returncode, other.returncode) == (0, 0)


def test_a_killed_process_leaves_nothing_that_is_taken_for_a_release(server: Server, cache: Path):
    body = server.files["/release/wordpress-6.9.zip"]
    assert isinstance(body, bytes)
    server.files["/release/wordpress-6.9.zip"] = [Served(body, stall=True, times=1), Served(body)]
    start = time.monotonic()
    with fetching() as process:
        while not list(cache.rglob("wordpress.zip")):
            eventually(False, start)
        process.kill()
    assert list_releases() == ()
    assert find_release("6.9") is None
    assert ensure_release("6.9").version == "6.9"
    assert not list(cache.rglob("*.partial"))
    assert not list(cache.rglob("wordpress.zip"))


# Nightly builds


def test_a_nightly_is_kept_by_its_checksum(server: Server):
    server.publish("/nightly.zip", zip_of(core_files("7.2-alpha-60001"), "wordpress/"), "md5")
    first = ensure_release("nightly")
    assert first.version == "7.2-alpha-60001"
    assert ensure_release("nightly") == first
    assert server.asked("/nightly.zip") == 1
    server.publish("/nightly.zip", zip_of(core_files("7.2-alpha-60002"), "wordpress/"), "md5")
    second = ensure_release("nightly")
    assert second.version == "7.2-alpha-60002"
    assert {release.version for release in list_releases()} == {"7.2-alpha-60001", "7.2-alpha-60002"}
    os.utime(first.core.parent / "release.json", (1, 1))
    server.requests.clear()
    assert find_release("nightly") == second
    assert server.requests == []


def test_a_nightly_that_changes_between_checksum_and_zip_is_not_used(server: Server, cache: Path):
    server.publish("/nightly.zip", zip_of(core_files("7.2-alpha-60001"), "wordpress/"), "sha1")
    server.files["/nightly.zip"] = zip_of(core_files("7.2-alpha-60002"), "wordpress/")
    with pytest.raises(EnvironmentFailure, match="checksum"):
        ensure_release("nightly")
    assert leftovers(cache) == set()


def test_a_nightly_without_a_checksum_is_not_taken_over_http(server: Server):
    body = zip_of(core_files("7.2-alpha-60001"), "wordpress/")
    server.files["/nightly.zip"] = [Served(body, headers={"ETag": '"1"'})]
    with pytest.raises(EnvironmentFailure, match="no published checksum"):
        ensure_release("nightly")


def test_a_nightly_without_a_checksum_is_taken_over_https_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    certificate = self_signed(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", certificate[0])
    with serving(certificate) as server:
        point_at(server, monkeypatch)
        body = zip_of(core_files("7.2-alpha-60001"), "wordpress/")
        server.files["/nightly.zip"] = [Served(body, headers={"ETag": '"1"'})]
        said: list[str] = []
        first = ensure_release("nightly", progress=said.append)
        assert any("No checksum is published" in sentence for sentence in said)
        assert ensure_release("nightly") == first
        assert server.requests.count("/nightly.zip") == 3  # two looks at its ETag, one download


def test_a_server_with_an_untrusted_certificate_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(download, "FIRST_WAIT_SECONDS", 300)  # another attempt would time out
    with serving(self_signed(tmp_path)) as server, pytest.raises(SourceFailure, match=r"(?i)certificate"):
        download.download(f"{server.url}/a", tmp_path / "out", maximum_bytes=100)


def self_signed(directory: Path) -> tuple[str, str]:
    """Make a certificate for 127.0.0.1 and give its file and its key's."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    files = directory / "certificate.pem", directory / "key.pem"
    files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return str(files[0]), str(files[1])


# What the user has


def write(directory: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return directory


USED = {
    "wp-config.php": "<?php // secrets",
    ".git/config": "[core]",
    "wp-content/db.php": "<?php // drop-in",
    "wp-content/uploads/2026/a.jpg": "jpg",
    "wp-content/mu-plugins/a.php": "<?php // must use",
    "wp-content/plugins/shop/shop.php": "<?php // shop",
    "wp-content/themes/twentytwentyfive/node_modules/a/index.js": "a",
    "error_log": "errors",
    "backup/wp-load.php": "<?php // old",
}


def test_a_directory_is_taken_without_what_a_used_installation_collects(server: Server, tmp_path: Path):
    directory = write(tmp_path / "site", {**core_files("7.0"), **USED})
    (directory / "wp-includes" / "link.php").symlink_to("/etc/passwd")
    release = ensure_release(str(directory))
    assert release.version == "7.0"
    assert files_below(release.core) == PRISTINE
    assert release.source == str(directory)
    assert files_below(release.sqlite_plugin) == set(PLUGIN_FILES)
    assert not any(path.startswith("/release/") for path in server.requests), "only the tools are fetched"


def test_an_edited_directory_is_another_release(server: Server, tmp_path: Path):
    directory = write(tmp_path / "site", core_files("7.0"))
    first = ensure_release(str(directory))
    assert ensure_release(str(directory)) == first
    (directory / "wp-includes" / "version.php").write_text("<?php\n$wp_version = '7.0';\n// edited\n")
    second = ensure_release(str(directory))
    assert second.digest != first.digest
    assert (first.core / "wp-includes" / "version.php").read_text() == core_files("7.0")[
        "wp-includes/version.php"
    ]


def test_the_directory_that_an_official_zip_unpacks_to_is_found(server: Server, tmp_path: Path):
    write(tmp_path / "unzipped" / "wordpress", core_files("7.0"))
    assert ensure_release(str(tmp_path / "unzipped")).version == "7.0"


@pytest.mark.parametrize("top", ["", "wordpress/", "a/b/"])
def test_a_zip_is_taken_at_whatever_depth_wordpress_lies(server: Server, tmp_path: Path, top: str):
    archive = tmp_path / "my.zip"
    archive.write_bytes(zip_of(core_files("7.0", **USED), top))
    release = ensure_release(str(archive))
    assert release.version == "7.0"
    assert files_below(release.core) == PRISTINE


def test_a_path_relative_to_the_working_directory_will_do(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    write(tmp_path / "here", core_files("7.0"))
    monkeypatch.chdir(tmp_path)
    assert ensure_release("here") == ensure_release("./here")


def test_the_tools_for_a_local_release_come_from_one_that_is_cached(server: Server, tmp_path: Path):
    cached = ensure_release("6.9")
    server.requests.clear()
    release = ensure_release(str(write(tmp_path / "site", core_files("7.0"))))
    assert server.requests == []
    assert release.wp_cli.read_bytes() == cached.wp_cli.read_bytes()
    assert files_below(release.sqlite_plugin) == set(PLUGIN_FILES)


@pytest.mark.parametrize("made", ["missing.zip", "empty/", "text.txt/"])
def test_a_path_without_wordpress_is_a_usage_error(tmp_path: Path, made: str):
    if made == "empty/":
        (tmp_path / "empty").mkdir()
    if made == "text.txt/":
        write(tmp_path / "text.txt", {"wp-load.php": "<?php // no version beside it"})
    with pytest.raises(UsageError, match=r"wp-load\.php|does not exist"):
        ensure_release(str(tmp_path / made))


def test_a_file_that_is_no_zip_leaves_no_cache(server: Server, cache: Path, tmp_path: Path):
    (tmp_path / "my.zip").write_bytes(b"PK nothing")
    with pytest.raises(EnvironmentFailure, match="cannot be unpacked"):
        ensure_release(str(tmp_path / "my.zip"))
    assert leftovers(cache) == set()


# The npm package


NPM = """
#!{python}
import json, pathlib, shutil, sys
here = pathlib.Path(__file__).parent
found = sorted(path.name for path in pathlib.Path().iterdir())
(here / "called.json").write_text(json.dumps([sys.argv[1:], found]))
print("a line for each file\\n" * 5000)
print("npm error code E404\\nnpm error A complete log of this run", file=sys.stderr)
if (here / "package.tgz").exists():
    shutil.copy(here / "package.tgz", "wp-studio-1.22.0.tgz")
else:
    sys.exit(1)
"""


@pytest.fixture
def npm_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An npm client on PATH, and the tarball that it downloads."""
    tarball = tmp_path / "bin" / "package.tgz"
    tarball.parent.mkdir()
    (tarball.parent / "npm").write_text(textwrap.dedent(NPM).strip().format(python=sys.executable))
    (tarball.parent / "npm").chmod(0o755)
    publish_npm(tarball, npm_tarball("7.1.1"), monkeypatch)
    return tarball


def publish_npm(tarball: Path, body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    tarball.write_bytes(body)
    monkeypatch.setattr(npm, "INTEGRITY", "sha512-" + b64encode(hashlib.sha512(body).digest()).decode())


def test_the_default_release_comes_from_npm_where_there_is_a_client(npm_client: Path, cache: Path):
    release = ensure_release()
    assert release.version == "7.1.1"
    assert release.source == "npm wp-studio@1.22.0"
    assert files_below(release.core) == PRISTINE
    assert files_below(release.sqlite_plugin) == set(PLUGIN_FILES)
    assert release.wp_cli.read_bytes() == PHAR
    assert files_below(cache / "releases" / "7.1.1") == leftovers(cache / "releases" / "7.1.1")
    called = (npm_client.parent / "called.json").read_text()
    assert "--ignore-scripts" in called
    assert "package.json" in called, "npm must not look for a project in the parents"


def test_a_package_that_is_not_the_pinned_one_is_not_used(npm_client: Path, server: Server, cache: Path):
    npm_client.write_bytes(npm_tarball("7.1.1", **{"package/dist/extra": b"evil"}))
    with pytest.raises(EnvironmentFailure) as raised:
        ensure_release()
    assert "not what was pinned" in str(raised.value)
    assert "wordpress-7.1.1.zip" in str(raised.value), "the official zip was tried next"
    assert leftovers(cache) == set()


def test_the_official_zip_is_used_where_npm_fails(npm_client: Path, server: Server):
    npm_client.unlink()
    server.publish("/release/wordpress-7.1.1.zip", zip_of(core_files("7.1.1"), "wordpress/"), "sha1")
    assert ensure_release().source == f"{server.url}/release/wordpress-7.1.1.zip"


def test_what_npm_said_is_in_the_error(npm_client: Path, server: Server):
    npm_client.unlink()
    with pytest.raises(EnvironmentFailure, match="failed with status 1: code E404"):
        ensure_release()


def test_the_official_zip_is_used_where_there_is_no_npm_client(server: Server):
    server.publish("/release/wordpress-7.1.1.zip", zip_of(core_files("7.1.1"), "wordpress/"), "sha1")
    assert ensure_release().source == f"{server.url}/release/wordpress-7.1.1.zip"


def test_npm_and_the_official_zip_give_one_digest(
    npm_client: Path, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    from_npm = ensure_release()
    server.publish("/release/wordpress-7.1.1.zip", zip_of(core_files("7.1.1"), "wordpress/"), "sha1")
    monkeypatch.setenv("REFCOMPARE_CACHE_DIR", str(tmp_path / "another"))
    npm_client.unlink()
    official_one = ensure_release()
    assert official_one.source != from_npm.source
    assert official_one.digest == from_npm.digest


def test_other_versions_do_not_come_from_npm(npm_client: Path, server: Server):
    assert ensure_release("6.9").source == f"{server.url}/release/wordpress-6.9.zip"
    assert not (npm_client.parent / "called.json").exists()


def test_the_tools_for_a_local_release_come_from_npm_where_nothing_else_is_there(
    npm_client: Path, tmp_path: Path
):
    release = ensure_release(str(write(tmp_path / "site", core_files("7.0"))))
    assert release.wp_cli.read_bytes() == PHAR
    assert {cached.version for cached in list_releases()} == {"7.0", "7.1.1"}


# Hostile archives


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = kind
    info.linkname = target
    return info


CORE = "package/dist/cli/wp-files/latest/wordpress/"


@pytest.mark.parametrize(
    "member",
    [
        {CORE + "wp-includes/a.php": link(CORE + "wp-includes/a.php", "/etc/passwd")},
        {
            CORE + "wp-includes/a.php": link(
                CORE + "wp-includes/a.php", "package/package.json", tarfile.LNKTYPE
            )
        },
        {CORE + "wp-includes/fifo": link(CORE + "wp-includes/fifo", "", tarfile.FIFOTYPE)},
        {CORE + "wp-includes/../../../escaped": b"evil"},
        {CORE + "wp-includes//etc": b"evil"},
        {CORE + "wp-includes/a\\..\\b": b"evil"},
    ],
    ids=["symlink", "hardlink", "fifo", "parent", "empty segment", "backslash"],
)
def test_a_hostile_tarball_is_refused(
    npm_client: Path,
    server: Server,
    cache: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    member: dict[str, bytes | tarfile.TarInfo],
):
    publish_npm(npm_client, npm_tarball("7.1.1", **member), monkeypatch)
    with pytest.raises(EnvironmentFailure, match=r"unsafe path|link or device"):
        ensure_release()
    assert leftovers(cache) == set()
    assert not list(tmp_path.rglob("escaped"))


def zip_with(name: str, mode: int = 0o100644, content: bytes = b"evil", times: int = 1) -> bytes:
    packed = io.BytesIO(zip_of(core_files("7.0")))
    with zipfile.ZipFile(packed, "a") as archive:
        for _ in range(times):
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            archive.writestr(info, content, zipfile.ZIP_DEFLATED)
    return packed.getvalue()


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("wp-includes/../../escaped", 0o100644),
        ("wp-includes/link.php", 0o120777),
        ("wp-includes/device", 0o020644),
        ("wp-includes/c:a", 0o100644),
    ],
)
def test_a_hostile_zip_is_refused(server: Server, cache: Path, tmp_path: Path, name: str, mode: int):
    (tmp_path / "my.zip").write_bytes(zip_with(name, mode))
    with pytest.raises(EnvironmentFailure, match=r"unsafe path|link or device"):
        ensure_release(str(tmp_path / "my.zip"))
    assert leftovers(cache) == set()
    assert not list(tmp_path.rglob("escaped"))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_zip_that_holds_a_file_twice_is_refused(server: Server, tmp_path: Path):
    (tmp_path / "my.zip").write_bytes(zip_with("wp-includes/twice.php", times=2))
    with pytest.raises(EnvironmentFailure, match="cannot be unpacked"):
        ensure_release(str(tmp_path / "my.zip"))


def test_a_zip_bomb_is_stopped(server: Server, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(archives, "MAXIMUM_BYTES", 4 * 1024 * 1024)
    (tmp_path / "my.zip").write_bytes(zip_with("wp-includes/bomb", content=bytes(64 * 1024 * 1024)))
    with pytest.raises(EnvironmentFailure, match="more than 4 MB"):
        ensure_release(str(tmp_path / "my.zip"))
    assert leftovers(cache) == set()


def test_an_archive_of_too_many_files_is_stopped(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(archives, "MAXIMUM_FILES", 8)
    (tmp_path / "my.zip").write_bytes(zip_of(core_files("7.0")))
    with pytest.raises(EnvironmentFailure, match="more than 8 files"):
        ensure_release(str(tmp_path / "my.zip"))


@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_a_damaged_zip_is_refused(server: Server, cache: Path, tmp_path: Path, damage: str):
    body = bytearray(zip_of(core_files("7.0", **{"wp-includes/big.php": "x" * 5000 + "y"})))
    if damage == "cut":
        body = body[: len(body) // 2]
    else:
        at = body.find(b"wp-includes/big.php") + len("wp-includes/big.php") + 4
        body[at] ^= 0xFF
    (tmp_path / "my.zip").write_bytes(body)
    with pytest.raises(EnvironmentFailure, match="cannot be unpacked"):
        ensure_release(str(tmp_path / "my.zip"))
    assert leftovers(cache) == set()


@given(name=st.text(alphabet="ab./\\:\0 \n", max_size=12))
def test_no_member_name_leads_out_of_the_destination(tmp_path_factory: pytest.TempPathFactory, name: str):
    outer = tmp_path_factory.mktemp("outer")
    (outer / "a.tar").write_bytes(tarball_of({name or "a": b"x"}))
    into = outer / "into"
    into.mkdir()
    try:
        archives.unpack_tar(outer / "a.tar", lambda member: member, into)
    except SourceFailure:
        assert files_below(into) == set()
    assert files_below(outer) - {"a.tar"} == {f"into/{path}" for path in files_below(into)}


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("wp-load.php", True),
        ("wp-includes/blocks/a/block.json", True),
        ("wp-content/themes/twentytwentyfive/.stylelintrc.json", True),
        ("wp-includes", False),
        ("wp-config.php", False),
        (".htaccess", False),
        ("wp-content/debug.log", False),
        ("wp-content/plugins/hello.php", False),
        ("wp-content/themes/mine/.git/config", False),
    ],
)
def test_what_belongs_to_a_pristine_wordpress(path: str, kept: bool):
    assert belongs_to_core(path) is kept
