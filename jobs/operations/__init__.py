"""The operations of operators, one file a noun; admin, REST and CLI only call these."""
