"""What admin pages, REST views, commands and JSON columns are built from. Imports nothing of ours."""
