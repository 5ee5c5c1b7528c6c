"""What operators do, one file a noun; admin, REST and CLI call these and write nothing themselves."""
