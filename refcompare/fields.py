"""Hostile JSON read key by key, so that nothing is used before it was checked."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeVar

HIGHEST = 1e9
"""No count, line, number of milliseconds or seconds is above this; the schemas say the same."""

Word = TypeVar("Word", bound=StrEnum)


class Unexpected(ValueError):
    """A JSON value is not what it should be; the schema says in which way."""


class Fields:
    """One JSON object; every method raises Unexpected where the value of a key is another than it says.

    A key without a default, and one that is read as required, has to be there.
    """

    __slots__ = ("_values",)

    def __init__(self, value: object) -> None:
        if not isinstance(value, dict):
            raise Unexpected
        self._values: Mapping[str, Any] = value

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def get(self, key: str) -> Any:
        """Give whatever the key has; None without it."""
        return self._values.get(key)

    def text(self, key: str, default: str | None = None) -> str:
        """Give a string."""
        value = self._values.get(key, default)
        if not isinstance(value, str):
            raise Unexpected
        return value

    def text_or_none(self, key: str) -> str | None:
        """Give a string, None without the key."""
        return self.text(key) if key in self._values else None

    def texts(self, key: str) -> tuple[str, ...]:
        """Give a list of strings, empty without the key."""
        values = self._values.get(key, [])
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise Unexpected
        return tuple(values)

    def text_by_name(self, key: str) -> dict[str, str]:
        """Give an object of strings, empty without the key."""
        values = self._values.get(key, {})
        if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
            raise Unexpected
        return values

    def flag(self, key: str, default: bool | None = None) -> bool:
        """Give true or false."""
        value = self._values.get(key, default)
        if not isinstance(value, bool):
            raise Unexpected
        return value

    def number(self, key: str, *, least: float = 0, most: float) -> float:
        """Give a number from ``least`` to ``most``."""
        value = self._values.get(key)
        if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= most:
            raise Unexpected
        return float(value)

    def number_or_none(self, key: str, *, least: float = 0, most: float = HIGHEST) -> float | None:
        """Give a number from ``least`` to ``most``, None without the key."""
        return self.number(key, least=least, most=most) if key in self._values else None

    def integer(self, key: str, default: int | None = None, *, least: int = 0) -> int:
        """Give a whole number from ``least`` to a thousand million."""
        value = self._values.get(key, default)
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # JSON knows no difference between 1 and 1.0
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= HIGHEST:
            raise Unexpected
        return value

    def integer_or_none(self, key: str) -> int | None:
        """Give a whole number from 0, None without the key."""
        return self.integer(key) if key in self._values else None

    def word(self, key: str, words: type[Word]) -> Word:
        """Give a member of an enumeration by its value."""
        try:
            return words(self.text(key))
        except ValueError as error:
            raise Unexpected from error

    def word_or_none(self, key: str, words: type[Word]) -> Word | None:
        """Give a member of an enumeration by its value, None without the key."""
        return self.word(key, words) if key in self._values else None

    def items(self, key: str, *, required: bool = False) -> list[Any]:
        """Give a list of anything, empty without the key unless that is required."""
        value = self._values.get(key) if required else self._values.get(key, [])
        if not isinstance(value, list):
            raise Unexpected
        return value
