"""An installed WordPress on SQLite, made once for a release and then only read."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from refcompare.errors import EnvironmentFailure
from refcompare.paths import cache_directory
from refcompare.wordpress.php import Php
from refcompare.wordpress.releases import Release
from refcompare.wordpress.sources.interface import PLUGIN
from refcompare.wordpress.store import keep, open_permissions, remove, shape_digest

DATABASE_VARIABLE = "REFCOMPARE_DB_DIR"
"""Names the directory of the database to wp-config.php, where that is not the snapshot's own."""

DATABASE_FILE = "wordpress.sqlite"
HOME_URL = "http://localhost:8888"
ADMIN_USER = "admin"
ADMIN_PASSWORD = "password"  # of a site that no network reaches
ADMIN_EMAIL = "admin@example.org"
TITLE = "refcompare"

_ROOT = "wordpress"
_DATABASE = "database"
_MANIFEST = "site.json"
_TIMEOUT_SECONDS = 180

# Raised when a site must be made anew for a reason that the texts below do not show.
_RECIPE = 1

_SALTS = (
    "AUTH_KEY",
    "SECURE_AUTH_KEY",
    "LOGGED_IN_KEY",
    "NONCE_KEY",
    "AUTH_SALT",
    "SECURE_AUTH_SALT",
    "LOGGED_IN_SALT",
    "NONCE_SALT",
)

# The site is read at other paths than it was installed at, so nothing in it may name a path.
_CONFIG = f"""<?php
define( 'DB_NAME', 'wordpress' );
define( 'DB_USER', '' );
define( 'DB_PASSWORD', '' );
define( 'DB_HOST', '' );
define( 'DB_CHARSET', 'utf8mb4' );
define( 'DB_COLLATE', '' );
define( 'DB_ENGINE', 'sqlite' );
define( 'DB_FILE', '{DATABASE_FILE}' );
define( 'DB_DIR', getenv( '{DATABASE_VARIABLE}' ) ?: dirname( __DIR__ ) . '/{_DATABASE}' );

{{salts}}

define( 'WP_HOME', '{HOME_URL}' );
define( 'WP_SITEURL', '{HOME_URL}' );
define( 'WP_ENVIRONMENT_TYPE', 'local' );
define( 'WP_DEBUG', true );
define( 'WP_DEBUG_DISPLAY', false );
define( 'WP_DEBUG_LOG', false );
define( 'SCRIPT_DEBUG', true );
define( 'FS_METHOD', 'direct' );
define( 'DISABLE_WP_CRON', true );
define( 'AUTOMATIC_UPDATER_DISABLED', true );

$table_prefix = 'wp_';

if ( ! defined( 'ABSPATH' ) ) {{{{
	define( 'ABSPATH', __DIR__ . '/' );
}}}}

require_once ABSPATH . 'wp-settings.php';
""".format(salts="\n".join(f"define( '{name}', 'refcompare {name}' );" for name in _SALTS))

# Installing asks the site for pages, to learn whether rewriting works. Whatever answers on that
# port of this machine must not decide, so nothing answers. What a password's hash costs would be
# another in PHP 8.4, and a site has to be the same whichever PHP has made it.
_HOOKS = (
    "WP_CLI::add_wp_hook( 'pre_http_request', fn() => new WP_Error( 'http_request_failed', 'No network.' ) );"
    "WP_CLI::add_wp_hook( 'wp_hash_password_options', fn() => array( 'cost' => 10 ) );"
)

INSTALL = (
    "--allow-root",
    f"--exec={_HOOKS}",
    "core",
    "install",
    f"--url={HOME_URL}",
    f"--title={TITLE}",
    f"--admin_user={ADMIN_USER}",
    f"--admin_password={ADMIN_PASSWORD}",
    f"--admin_email={ADMIN_EMAIL}",
    "--skip-email",
)
"""The arguments of WP-CLI that install WordPress, after ``--path``."""

# To be run with ``php -r``. The journal mode is part of the file, and one in WAL mode cannot be read
# from a read-only directory.
SETTLE = f"""
$pdo = new PDO( 'sqlite:' . getenv( '{DATABASE_VARIABLE}' ) . '/{DATABASE_FILE}' );
$pdo->setAttribute( PDO::ATTR_ERRMODE, PDO::ERRMODE_EXCEPTION );
foreach ( array(
	"DELETE FROM wp_options WHERE option_name = 'doing_cron'",
	"DELETE FROM wp_options WHERE option_name LIKE '!_transient!_%' ESCAPE '!'",
	"DELETE FROM wp_options WHERE option_name LIKE '!_site!_transient!_%' ESCAPE '!'",
	'PRAGMA wal_checkpoint(TRUNCATE)',
	'PRAGMA journal_mode = DELETE',
	'VACUUM',
) as $statement ) {{
	$pdo->query( $statement )->fetchAll();
}}
"""  # noqa: S608  # nothing but names from this file is put into it


@dataclass(frozen=True, slots=True)
class Site:
    """An installed WordPress.

    ``root`` holds ``wp-load.php`` and ``wp-config.php``, ``database`` is its SQLite file with nothing
    beside it: a snapshot to copy, never to open for writing. The directory that ``REFCOMPARE_DB_DIR``
    names is where WordPress looks for a file of that name. ``digest`` is a hex SHA-256 over
    what the site was made from, so it is the same on every machine, and whichever PHP made it.
    """

    release: Release
    root: Path
    database: Path
    digest: str


Install = Callable[[Path, Path], None]
"""Installs the WordPress in one directory into a database file in another, empty one."""


def ensure_site(release: Release, php: Php, *, progress: Callable[[str], None] | None = None) -> Site:
    """Give an installed site of ``release``, installing it once with ``php`` (seconds).

    Raises EnvironmentFailure, with what WordPress said, when the installation fails.
    """

    def install(root: Path, database: Path) -> None:
        _install(root, database, release, php)
        _settle(database, php)

    return ensure_site_by(release, install, progress=progress)


def ensure_site_by(
    release: Release, install: Install, *, progress: Callable[[str], None] | None = None
) -> Site:
    """Give an installed site of ``release``, calling ``install`` where there is none yet.

    Raises whatever ``install`` raises, and EnvironmentFailure where the cache cannot hold it.
    """
    say = progress or (lambda _: None)
    digest = site_digest(release)

    def load(directory: Path) -> Site | None:
        return _load(directory, release, digest)

    def build(partial: Path) -> None:
        say(f"Installing WordPress {release.version}")
        _build(partial, release, install)

    return keep(cache_directory() / "sites" / digest[:32], load, build, say)


def site_digest(release: Release) -> str:
    """Give the hex SHA-256 that a site of ``release`` carries."""
    recipe = [_RECIPE, _CONFIG, INSTALL, SETTLE, release.digest]
    return hashlib.sha256(json.dumps(recipe).encode()).hexdigest()


def _load(directory: Path, release: Release, digest: str) -> Site | None:
    try:
        manifest = json.loads((directory / _MANIFEST).read_text())
        if manifest["digest"] != digest or shape_digest(directory, without=_MANIFEST) != manifest["shape"]:
            return None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Site(release, directory / _ROOT, directory / _DATABASE / DATABASE_FILE, digest)


def _build(partial: Path, release: Release, install: Install) -> None:
    root, database = partial / _ROOT, partial / _DATABASE
    shutil.copytree(release.core, root)
    shutil.copytree(release.sqlite_plugin, root / "wp-content" / "plugins" / PLUGIN)
    (root / "wp-content" / "db.php").write_text(_drop_in(release))
    (root / "wp-config.php").write_text(_CONFIG)
    database.mkdir()
    install(root, database)
    for name in ("upgrade", "uploads"):
        if not any(path.is_file() for path in (root / "wp-content" / name).rglob("*")):
            remove(root / "wp-content" / name)
    open_permissions(partial)
    manifest = {"digest": site_digest(release), "shape": shape_digest(partial)}
    (partial / _MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")
    (partial / _MANIFEST).chmod(0o644)


def _drop_in(release: Release) -> str:
    """Give the plugin's db.php. Its own fallback finds the plugin beside it, wherever the site lies."""
    template = (release.sqlite_plugin / "db.copy").read_text()
    text = template.replace("{SQLITE_IMPLEMENTATION_FOLDER_PATH}", "/nonexistent")
    return text.replace("{SQLITE_PLUGIN}", f"{PLUGIN}/load.php")


def _install(root: Path, database: Path, release: Release, php: Php) -> None:
    status, said = _run(php, [str(release.wp_cli), f"--path={root}", *INSTALL], database)
    if status != 0 or not (database / DATABASE_FILE).is_file():
        raise EnvironmentFailure(
            f"WordPress {release.version} was not installed by PHP {php.version} "
            f"(exit status {status}): {said}"
        )


def _settle(database: Path, php: Php) -> None:
    """Leave one compact database file, with no journal and nothing that depends on when it was made."""
    status, said = _run(php, ["-r", SETTLE], database)
    if status != 0:
        raise EnvironmentFailure(f"The database of a new site could not be settled: {said}")
    for path in database.iterdir():
        if path.name != DATABASE_FILE:
            remove(path)


def _run(php: Php, arguments: Sequence[str], database: Path) -> tuple[int, str]:
    """Run PHP on ``database`` with no secret in its environment; give exit status and the output's end."""
    with tempfile.TemporaryDirectory(prefix="refcompare-install-") as scratch:
        # WP-CLI looks for this file in the working directory and then in every parent.
        (Path(scratch) / "wp-cli.yml").write_text("")
        environment = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": scratch,
            "TMPDIR": scratch,
            "LANG": "C.UTF-8",
            DATABASE_VARIABLE: str(database),
        }
        log = Path(scratch) / "output.log"
        try:
            with log.open("wb") as output:
                process = subprocess.run(
                    [str(php.binary), "-d", "memory_limit=512M", *arguments],
                    cwd=scratch,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    timeout=_TIMEOUT_SECONDS,
                    check=False,
                )
        except subprocess.TimeoutExpired:
            return -1, f"it took more than {_TIMEOUT_SECONDS} seconds"
        except OSError as error:
            return -1, f"{php.binary} cannot be run: {error.strerror}"
        return process.returncode, log.read_bytes()[-2000:].decode(errors="replace").strip()
