"""Serves the OpenAPI document."""

from __future__ import annotations

from typing import Any

from drf_spectacular.views import SpectacularAPIView
from rest_framework import serializers
from rest_framework.request import Request


class SchemaView(SpectacularAPIView):
    """The OpenAPI document: YAML, or JSON by Accept or `?format=json`."""

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
