"""A registry of images on loopback, in the protocol that engines speak to one, kept in memory.

Anybody gets a ticket to pull with; only the password is worth one to push with, as with most public images.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

_UPLOADS = re.compile(r"/v2/(.+)/blobs/uploads/([0-9a-f]*)")
_BLOB = re.compile(r"/v2/(.+)/blobs/(sha256:[0-9a-f]{64})")
_MANIFEST = re.compile(r"/v2/(.+)/manifests/(.+)")


@dataclass
class ImageRegistry:
    """What was pushed. ``manifests`` are found by repository and by tag or digest."""

    user: str
    password: str
    manifests: dict[tuple[str, str], tuple[str, bytes]] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)
    uploads: dict[str, bytearray] = field(default_factory=dict)
    host: str = ""

    @contextmanager
    def running(self) -> Iterator[ImageRegistry]:
        registry = self

        class Handler(_Handler):
            kept = registry

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        self.host = f"127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    kept: ImageRegistry
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if path == "/ticket":
            self._ticket()
        elif not self._ticket_held():
            self._answer(401)
        elif path == "/v2/":
            self._answer(200)
        elif match := _BLOB.fullmatch(path):
            self._give(self.kept.blobs.get(match[2]), "application/octet-stream", match[2])
        elif match := _MANIFEST.fullmatch(path):
            kind, data = self.kept.manifests.get((match[1], match[2]), ("", None))
            self._give(data, kind, f"sha256:{hashlib.sha256(data or b'').hexdigest()}")
        else:
            self._answer(404)

    def do_POST(self) -> None:
        match = _UPLOADS.fullmatch(urlsplit(self.path).path)
        self._body()
        if match is None or not self._may_push():
            self._answer(404 if match is None else 401)
            return
        upload = uuid.uuid4().hex
        self.kept.uploads[upload] = bytearray()
        self._answer(202, Location=f"/v2/{match[1]}/blobs/uploads/{upload}")

    def do_PATCH(self) -> None:
        match = _UPLOADS.fullmatch(urlsplit(self.path).path)
        data = self._body()
        if match is None or not self._may_push():
            self._answer(404 if match is None else 401)
            return
        kept = self.kept.uploads[match[2]]
        kept += data
        self._answer(202, Location=self.path, Range=f"0-{max(0, len(kept) - 1)}")

    def do_PUT(self) -> None:
        parts, data = urlsplit(self.path), self._body()
        upload, manifest = _UPLOADS.fullmatch(parts.path), _MANIFEST.fullmatch(parts.path)
        if not self._may_push():
            self._answer(401)
        elif upload is not None:
            whole = bytes(self.kept.uploads.pop(upload[2]) + data)
            digest = f"sha256:{hashlib.sha256(whole).hexdigest()}"
            if parse_qs(parts.query)["digest"] != [digest]:
                self._answer(400)
                return
            self.kept.blobs[digest] = whole
            self._answer(201, Location=f"/v2/{upload[1]}/blobs/{digest}")
        elif manifest is not None:
            digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
            for name in (manifest[2], digest):
                self.kept.manifests[manifest[1], name] = (self.headers["Content-Type"], data)
            headers = {"Location": self.path, "Docker-Content-Digest": digest}
            self._answer(201, b"", **headers)
        else:
            self._answer(404)

    def _ticket(self) -> None:
        wanted = base64.b64encode(f"{self.kept.user}:{self.kept.password}".encode()).decode()
        given = self.headers.get("Authorization")
        if given not in (None, f"Basic {wanted}"):
            self._answer(401)
            return
        ticket = {"token": "to-pull" if given is None else "to-push"}
        self._answer(200, json.dumps(ticket).encode(), **{"Content-Type": "application/json"})

    def _ticket_held(self) -> str:
        kind, _, ticket = self.headers.get("Authorization", "").partition(" ")
        return ticket if kind == "Bearer" and ticket in ("to-pull", "to-push") else ""

    def _may_push(self) -> bool:
        return self._ticket_held() == "to-push"

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        data = bytearray()
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            data += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return bytes(data)

    def _give(self, data: bytes | None, kind: str, digest: str) -> None:
        if data is None:
            self._answer(404)
        else:
            self._answer(200, data, **{"Content-Type": kind, "Docker-Content-Digest": digest})

    def _answer(self, status: int, data: bytes = b"", /, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Docker-Distribution-Api-Version", "registry/2.0")
        if status == 401:
            realm = f'realm="http://{self.kept.host}/ticket",service="images"'
            self.send_header("WWW-Authenticate", f"Bearer {realm}")
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)
