"""Verdicts by content digest: what is known already is not graded again."""

from refcompare.cache.verdicts import (
    DEFAULT_MAX_AGE_SECONDS,
    DEFAULT_MAX_BYTES,
    CacheStats,
    MergeResult,
    VerdictCache,
)

__all__ = ["DEFAULT_MAX_AGE_SECONDS", "DEFAULT_MAX_BYTES", "CacheStats", "MergeResult", "VerdictCache"]
