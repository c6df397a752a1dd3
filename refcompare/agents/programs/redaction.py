"""Secrets that are known are taken out of whatever is kept."""

from __future__ import annotations

import json
import os
import re
import urllib.parse
from base64 import b64encode
from collections.abc import Iterable, Mapping

REDACTED = "[redacted]"

SHORTEST = 8
"""Values with fewer characters are left alone: they are in ordinary text, and no secret."""

_NAMES = re.compile(
    r"(^|_|API)KEYS?(_|$)|TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|AUTH(?!OR)|COOKIE", re.IGNORECASE
)


class Redactor:
    """Replaces known secrets in text, also where they are quoted for JSON or a URL, or in base64."""

    def __init__(self, secrets: Iterable[str]) -> None:
        forms: set[str] = set()
        for secret in secrets:
            if len(secret.strip()) >= SHORTEST:
                forms |= _forms(secret) | _forms(secret.strip())
        # The longest first, since one secret may be the beginning of another.
        ordered = sorted(forms, key=lambda form: (-len(form), form))
        self._pattern = re.compile("|".join(map(re.escape, ordered))) if ordered else None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None, *more: str) -> Redactor:
        """Know the values of all variables that are named like a secret, and ``more``.

        ``environment`` is this process's own unless given.
        """
        variables = os.environ if environment is None else environment
        return cls([*(value for name, value in variables.items() if _NAMES.search(name)), *more])

    def text(self, text: str) -> str:
        """Give ``text`` with each secret replaced by ``[redacted]``."""
        return text if self._pattern is None else self._pattern.sub(REDACTED, text)


def _forms(secret: str) -> set[str]:
    quoted = json.dumps(secret)[1:-1]
    encoded = b64encode(secret.encode()).decode()
    # Found in longer data only where it starts at a group of three bytes.
    return {secret, quoted, urllib.parse.quote(secret, safe=""), encoded, encoded.rstrip("=")}
