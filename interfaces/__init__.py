"""Base classes of admin pages, REST views, commands and JSON columns. Imports no app of ours."""
