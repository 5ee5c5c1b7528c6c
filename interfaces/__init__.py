"""Base classes of admin pages, REST views, commands and JSON columns; imports no other app."""
