"""The errors of tenancy.

TenantError
  MissingTenant    no firm in scope where one is needed
  TenantMismatch   a row or payload of another firm than the one in scope
  UnknownFirm      no firm has this slug or id
  AmbiguousUser    several users have the name or address that was given
  NotAFirm         where a firm is needed, something else was given
  AppendOnly       the audit log takes new entries and nothing else
  DeletionRefused  a firm or user is deleted by the operations that take its rows along
  EncryptionError
    NoEncryptionKey    FIELD_ENCRYPTION_KEYS lacks the key
    DecryptionFailed   a stored secret was altered or moved
"""

from __future__ import annotations

from collections.abc import Iterable


class TenantError(Exception):
    """The base of these errors."""

    code = "tenant_error"


class MissingTenant(TenantError):
    """No firm is in scope: use `with firm_scope(firm):` or `with all_firms("reason"):` of `tenants.scope`."""

    code = "missing_tenant"

    def __init__(self, what: str = "", advice: str = "") -> None:
        advice = advice or str(self.__doc__)
        super().__init__(f"{what}: {advice}" if what else advice)


class TenantMismatch(TenantError):
    """The row belongs to a firm that is not in scope."""

    code = "tenant_mismatch"


class AmbiguousUser(TenantError):
    """Several users have this name, in upper and lower case, or this address."""

    code = "ambiguous_user"

    def __init__(self, key: str, names: Iterable[str]) -> None:
        told = ", ".join(repr(name) for name in names)
        super().__init__(
            f"several users are named or reached by {key!r}: give the name of one, {told}"
        )


class UnknownFirm(TenantError):
    """No firm has this slug or id."""

    code = "unknown_firm"


class NotAFirm(TenantError, TypeError):
    """Where a firm is needed, something else was given."""

    code = "not_a_firm"


class AppendOnly(TenantError):
    """The audit log takes new entries and nothing else."""

    code = "append_only"

    def __init__(self) -> None:
        super().__init__(self.__doc__)


class DeletionRefused(TenantError):
    """Its rows would stay behind: use `manage.py delete_firm` or the admin, which take them along."""

    code = "deletion_refused"

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} cannot be deleted like this. {self.__doc__}")


class EncryptionError(TenantError):
    """A secret cannot be encrypted, or a stored secret cannot be decrypted."""

    code = "encryption_error"


class NoEncryptionKey(EncryptionError):
    """FIELD_ENCRYPTION_KEYS lacks the key."""

    code = "no_encryption_key"


class DecryptionFailed(EncryptionError):
    """A stored secret was altered or moved."""

    code = "decryption_failed"
