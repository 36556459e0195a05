"""What opening a database may do to its tables.

Owns: the policy. Must not know: SQL, stores.
Read next: `store_admin.py`.
"""

from __future__ import annotations

from enum import StrEnum


class SchemaPolicy(StrEnum):
    """What opening a database may do to its tables."""

    AUTO_CREATE = "auto_create"
    """Create missing tables and run what pending migrations need before anything else; their clean-up is left alone."""
    MIGRATE = "migrate"
    """The same, and also finish migrations: clean up, and make good a migration that was cut off. For an operator."""
    VERIFY = "verify"
    """Change nothing; raise `StoreSchemaError` with the exact DDL when something is missing."""
