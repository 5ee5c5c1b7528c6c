"""Mailboxes of a firm: connecting, modes, pausing, and who may read them."""
