"""Tiny archives in the shape of WordPress's, and a server that publishes them."""

from __future__ import annotations

import hashlib
import io
import ssl
import tarfile
import threading
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def core_files(version: str, **more: str) -> dict[str, str]:
    """Give what the zip of a release holds, below its top directory."""
    return {
        "wp-load.php": "<?php // load",
        "index.php": "<?php // index",
        "license.txt": "GPL",
        "readme.html": "<p>WordPress",
        "wp-config-sample.php": "<?php // sample",
        "wp-admin/admin.php": "<?php // admin",
        "wp-includes/version.php": f"<?php\n$wp_version = '{version}';\n",
        "wp-content/index.php": "<?php // silence",
        "wp-content/plugins/index.php": "<?php // silence",
        "wp-content/plugins/hello.php": "<?php // hello",
        "wp-content/plugins/akismet/akismet.php": "<?php // spam",
        "wp-content/themes/twentytwentyfive/style.css": "/* theme */",
        **more,
    }


PRISTINE = {
    "wp-load.php",
    "index.php",
    "license.txt",
    "readme.html",
    "wp-config-sample.php",
    "wp-admin/admin.php",
    "wp-includes/version.php",
    "wp-content/index.php",
    "wp-content/plugins/index.php",
    "wp-content/themes/twentytwentyfive/style.css",
}

PLUGIN_FILES = {
    "load.php": "<?php // plugin",
    "db.copy": "<?php // {SQLITE_IMPLEMENTATION_FOLDER_PATH} {SQLITE_PLUGIN}",
    "wp-includes/sqlite/db.php": "<?php // driver",
}

PHAR = b"#!/usr/bin/env php\n<?php // wp-cli"


def zip_of(files: Mapping[str, str], top: str = "") -> bytes:
    """Give a zip of ``files`` below the directory ``top``."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(top + name, text)
    return packed.getvalue()


def tarball_of(files: Mapping[str, bytes | tarfile.TarInfo]) -> bytes:
    """Give a gzipped tar; a TarInfo stands for a member that is no regular file."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in files.items():
            if isinstance(content, tarfile.TarInfo):
                archive.addfile(content)
            else:
                info = tarfile.TarInfo(name)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    return packed.getvalue()


def npm_tarball(version: str, **more: bytes | tarfile.TarInfo) -> bytes:
    """Give a tarball in the shape of the npm package that carries WordPress."""
    files = "package/dist/cli/wp-files/"
    return tarball_of(
        {
            "package/package.json": b"{}",
            **{f"{files}latest/wordpress/{k}": v.encode() for k, v in core_files(version).items()},
            **{f"{files}sqlite-database-integration/{k}": v.encode() for k, v in PLUGIN_FILES.items()},
            f"{files}wp-cli/wp-cli.phar": PHAR,
            f"{files}phpmyadmin/index.php": b"<?php // not wanted",
            **more,
        }
    )


@dataclass
class Served:
    """One address: its body, or what goes wrong there for the first ``times`` requests."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    truncated: bool = False
    stall: bool = False
    seconds: float = 0
    times: int = 1_000_000


class Server:
    """A server on a loopback port. ``files`` maps a path to bytes, or to the Served answers in turn."""

    def __init__(self, httpd: ThreadingHTTPServer, scheme: str) -> None:
        self.files: dict[str, bytes | list[Served]] = {}
        self.requests: list[str] = []
        self.released = threading.Event()
        self.url = f"{scheme}://127.0.0.1:{httpd.server_address[1]}"

    def publish(self, path: str, body: bytes, *algorithms: str) -> None:
        """Serve ``body`` at ``path`` with its checksums beside it."""
        self.files[path] = body
        for algorithm in algorithms:
            self.files[f"{path}.{algorithm}"] = hashlib.new(algorithm, body).hexdigest().encode()

    def asked(self, path: str) -> int:
        """Say how often ``path`` was requested."""
        return self.requests.count(path)

    def answer(self, path: str) -> Served:
        """Give the answer to the next request for ``path``."""
        self.requests.append(path)
        found = self.files.get(path)
        if found is None:
            return Served(status=404)
        if isinstance(found, bytes):
            return Served(found)
        for served in found:
            if served.times > 0:
                served.times -= 1
                return served
        return Served(status=404)


@contextmanager
def serving(certificate: tuple[str, str] | None = None) -> Iterator[Server]:
    """Start a Server, over TLS with a (certificate, key) pair of files."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served = server.answer(self.path)
            time.sleep(served.seconds)
            self.send_response(served.status)
            for name, value in served.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(served.body)))
            self.end_headers()
            if self.command == "HEAD":
                return
            half = served.truncated or served.stall
            self.wfile.write(served.body[: len(served.body) // 2] if half else served.body)
            if served.stall:
                self.wfile.flush()
                server.released.wait(60)

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.daemon_threads = True
    httpd.handle_error = lambda *_: None  # type: ignore[method-assign]  # clients that were killed
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        httpd.socket = context.wrap_socket(httpd.socket, server_side=True)
    server = Server(httpd, "https" if certificate else "http")
    thread = threading.Thread(target=httpd.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.released.set()
        httpd.shutdown()
        httpd.server_close()
        thread.join()
