"""Downloads over HTTP: bounded in time and size, tried again when the network stumbles, verified."""

from __future__ import annotations

import hashlib
import http.client
import re
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential, wait_random

from refcompare.wordpress.sources.interface import SourceFailure

ATTEMPTS = 4
FIRST_WAIT_SECONDS = 0.5
SOCKET_TIMEOUT_SECONDS = 30
TOTAL_TIMEOUT_SECONDS = 900

_CHUNK = 256 * 1024
_CHECKSUM_BYTES = 4096
_CHECKSUMS = ("sha1", "md5")
"""What is published beside WordPress's archives, as ``ARCHIVE.sha1`` and ``ARCHIVE.md5``."""


class NotFound(SourceFailure):
    """The server says that there is no such file."""


class _Transient(SourceFailure):
    """The network or the server stumbled; the same request may work in a moment."""


@dataclass(frozen=True, slots=True)
class Checksum:
    """A digest of a file: ``algorithm`` as hashlib names it, ``value`` in lower-case hex."""

    algorithm: str
    value: str

    def matches(self, file: Path) -> bool:
        """Say whether ``file`` has this digest."""
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, self.algorithm).hexdigest() == self.value


def download(url: str, target: Path, *, maximum_bytes: int) -> None:
    """Write what ``url`` serves to ``target``.

    Tries ATTEMPTS times where trying again can help. Raises NotFound, or SourceFailure when
    the server refuses, the file is larger than ``maximum_bytes`` or ends early, or it takes longer
    than TOTAL_TIMEOUT_SECONDS.
    """

    def once() -> None:
        with _response(url) as response, target.open("wb") as file:
            _copy(response, file, url, maximum_bytes)

    _retrying()(once)


def published_checksum(url: str) -> Checksum | None:
    """Give the checksum that is published beside the file at ``url``, None where there is none.

    Raises SourceFailure when one is published that cannot be read.
    """
    for algorithm in _CHECKSUMS:
        try:
            text = _retrying()(_text, f"{url}.{algorithm}")
        except NotFound:
            continue
        length = hashlib.new(algorithm, usedforsecurity=False).digest_size * 2
        # The digest alone, or as the sha1sum command writes it: digest, space, file name.
        match = re.match(r"\s*([0-9A-Fa-f]+)(\s|$)", text)
        if match is None or len(match[1]) != length:
            raise SourceFailure(f"{url}.{algorithm} holds no {algorithm} checksum.")
        return Checksum(algorithm, match[1].lower())
    return None


def validators(url: str) -> tuple[str, ...]:
    """Give what the server says to tell one version of the file from the next; empty if nothing."""

    def once() -> http.client.HTTPMessage:
        with _response(url, method="HEAD") as response:
            return response.headers

    headers = _retrying()(once)
    return tuple(f"{name}: {headers[name]}" for name in ("ETag", "Last-Modified") if headers[name])


def _retrying() -> Retrying:
    return Retrying(
        stop=stop_after_attempt(ATTEMPTS),
        wait=wait_exponential(multiplier=FIRST_WAIT_SECONDS, max=8) + wait_random(0, FIRST_WAIT_SECONDS),
        retry=retry_if_exception_type(_Transient),
        reraise=True,
    )


def _text(url: str) -> str:
    with _response(url) as response:
        return response.read(_CHECKSUM_BYTES).decode("ascii", errors="replace")


def _copy(response: http.client.HTTPResponse, file: IO[bytes], url: str, maximum_bytes: int) -> None:
    announced = response.headers.get("Content-Length", "")
    expected = int(announced) if announced.isascii() and announced.isdigit() else None
    deadline = time.monotonic() + TOTAL_TIMEOUT_SECONDS
    received = 0
    while chunk := response.read(_CHUNK):
        received += len(chunk)
        if received > maximum_bytes:
            raise SourceFailure(f"{url} is larger than {maximum_bytes // 1024**2} MB.")
        if time.monotonic() > deadline:
            raise SourceFailure(f"{url} took longer than {TOTAL_TIMEOUT_SECONDS} seconds.")
        file.write(chunk)
    if expected is not None and received != expected:
        raise _Transient(f"{url} ended after {received} of {expected} bytes.")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects, but never from https to anything else."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        scheme = urlsplit(newurl).scheme
        if scheme not in {"http", "https"} or (req.type == "https" and scheme != "https"):
            fp.close()
            raise SourceFailure(f"{req.full_url} redirects to {newurl}, which is not followed.")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


@contextmanager
def _response(url: str, method: str = "GET") -> Iterator[http.client.HTTPResponse]:
    if urlsplit(url).scheme not in {"http", "https"}:
        raise SourceFailure(f"{url} is neither an http nor an https address.")
    request = urllib.request.Request(url, method=method, headers={"User-Agent": "refcompare"})  # noqa: S310
    opener = urllib.request.build_opener(_Redirects)
    try:
        with opener.open(request, timeout=SOCKET_TIMEOUT_SECONDS) as response:
            yield response
    except urllib.error.HTTPError as error:
        error.close()
        if error.code in {404, 410}:
            raise NotFound(f"{url} does not exist (HTTP {error.code}).") from error
        kind = _Transient if error.code in {408, 425, 429} or error.code >= 500 else SourceFailure
        raise kind(f"{url} answered HTTP {error.code}.") from error
    except urllib.error.URLError as error:
        untrusted = isinstance(error.reason, ssl.SSLCertVerificationError)
        raise (SourceFailure if untrusted else _Transient)(f"{url}: {error.reason}.") from error
    except (ConnectionError, TimeoutError, ssl.SSLError, http.client.HTTPException) as error:
        raise _Transient(f"{url}: {error or type(error).__name__}.") from error
