"""Serves the OpenAPI document."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView
from rest_framework import serializers
from rest_framework.request import Request


class SchemaView(SpectacularAPIView):
    """The OpenAPI document: YAML, or JSON by Accept or `?format=json`."""

    @extend_schema(exclude=True)
    def get(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
        """Return the document, whatever other parameters are given."""
        renderer = request.accepted_renderer
        kind = renderer.media_type
        return HttpResponse(
            _document(renderer),
            content_type=f"{kind}; charset={renderer.charset}" if renderer.charset else kind,
            headers={"Content-Disposition": f'inline; filename="Mailroom.{renderer.format}"'},
        )

    def perform_content_negotiation(self, request: Request, force: bool = False) -> Any:
        """Choose the renderer by the parameter `format`, if it is given.

        Raises:
            ValidationError: there is no such format.
        """
        wanted = request.query_params.get("format")
        if force:
            # `force` is set for a refusal, which is JSON as everywhere.
            wanted = "json"
        if wanted is None:
            return super().perform_content_negotiation(request, force)
        # From the end: the later renderers have the media types that browsers and tools know.
        for renderer in reversed(self.get_renderers()):
            if renderer.format == wanted:
                return renderer, renderer.media_type
        fault = serializers.ErrorDetail("The value must be json or yaml.", "invalid_choice")
        raise serializers.ValidationError({"format": [fault]})


# By media type: it takes a second to make one, and anybody may ask for it.
_documents: dict[str, bytes] = {}


def _document(renderer: Any) -> bytes:
    kind: str = renderer.media_type
    if kind not in _documents:
        generator: Any = SpectacularAPIView.generator_class()
        _documents[kind] = renderer.render(generator.get_schema(request=None, public=True))
    return _documents[kind]
