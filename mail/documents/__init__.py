"""Attachments: their type, their text, and the scan for malware; without the database."""
