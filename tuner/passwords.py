"""Passwords in the URLs of databases: never shown."""

from __future__ import annotations

import re

_IN_URL = re.compile(r"(://[^:/@\s]*:)\S*@")  # up to the last @: one in a password may not be escaped
_IN_QUERY = re.compile(r"(?i)([?&;\s](?:[a-z]*password|passwd|pwd|pass|secret|token)=)[^&\s'\"]+")


def hidden(text: str) -> str:
    """Return a text in which passwords of URLs are three stars."""
    return _IN_QUERY.sub(r"\1***", _IN_URL.sub(r"\1***@", text))
