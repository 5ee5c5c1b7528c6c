"""Base classes of REST views, and the shape of their errors."""

API_PREFIX = "/api/"
