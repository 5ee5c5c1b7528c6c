"""Base classes of REST views, and the shape of their errors."""
