"""What a variable looks like that holds a secret.

Owns: which names and values of an environment count as secret, for shells and for redaction. Must not know: who hides what.
Read next: `secret_spans.py` for secrets in running text.
"""

from __future__ import annotations

import re

_SECRET_NAME = re.compile(
    r"(?:^|_)(?:api_?key|\w*key|keys|token|tokens|\w*token|secret|secrets|passwd|password|passphrase|pass|pwd|auth|credential"
    r"|credentials|creds|cookie|private|dsn|pat)(?:_|$)"
    r"|CRED|PGPASS|STRIPE|DSN|WEBHOOK",
    re.IGNORECASE,
)
# Names that the pattern above takes for secrets and that are none.
_HARMLESS = frozenset({"PWD", "OLDPWD"})
_SECRET_VALUE = re.compile(
    r"://[^/\s:@]*:[^/\s@]+@"  # an address with a password
    r"|-----BEGIN "
    r"|\b(?:sk-[\w-]{16,}|[srp]k_(?:live|test)_\w{8,}|whsec_\w{8,}|hooks\.slack\.com/|gh[pousr]_\w{20,}|github_pat_\w{20,}|xox[abprs]-[\w-]{10,}|AKIA[0-9A-Z]{16}|AIza[\w-]{30,}|eyJ[\w-]+\.eyJ[\w-]+\.)"
)


def is_secret(name: str, value: str) -> bool:
    """True when an environment variable looks like a key, a token or a password, by its name or by its value."""
    if name.upper() in _HARMLESS:
        return False
    return bool(_SECRET_NAME.search(name) or _SECRET_VALUE.search(value))
