"""The use cases of the mail app, one to a module; the caller passes the clients in."""
