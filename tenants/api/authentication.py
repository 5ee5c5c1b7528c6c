"""Who may use the API at all: API keys, and members. The views check roles row by row."""

from __future__ import annotations

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from tenants.access import Access
from tenants.api import keys

SCHEME = "Bearer"


class ApiKeyAuthentication(BaseAuthentication):
    """Takes `Authorization: Bearer KEY`; `request.auth` is then a `keys.Credential`."""

    def authenticate(self, request: Request) -> tuple[Any, keys.Credential] | None:
        """Return the key's user and credential; None when no key is given.

        Raises:
            AuthenticationFailed: the key is wrong, expired, revoked, or its user or firm is not
                active. The answer does not say which.
        """
        scheme, _, text = get_authorization_header(request).partition(b" ")
        if scheme.lower() != SCHEME.lower().encode():
            return None
        credential = keys.find(text.strip().decode("latin-1"))
        if credential is None:
            raise AuthenticationFailed("This API key is not valid.", code="api_key_invalid")
        return credential.user, credential

    def authenticate_header(self, request: Request) -> str:
        """Return what a 401 says in WWW-Authenticate."""
        return f'{SCHEME} realm="mailroom"'


class ApiKeyScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # its registration is untyped
    """Describes the key in the OpenAPI schema."""

    target_class = ApiKeyAuthentication
    name = "apiKey"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        """Return the security scheme."""
        return {
            "type": "http",
            "scheme": "bearer",
            "description": "A key made by `manage.py create_api_key`.",
        }


class DenyAll(BasePermission):
    """The default: a view must declare its permissions."""

    def has_permission(self, request: Request, view: Any) -> bool:
        """Refuse."""
        return False


class IsMember(BasePermission):
    """Members of at least one active firm, and platform staff."""

    message = "You are not a member of any active firm."

    def has_permission(self, request: Request, view: Any) -> bool:
        """Allow users who see a firm."""
        access: Access = view.access
        return access.roles != {}
