"""Outgoing notifications: e-mails and webhooks, what they are about, and the record of each."""
