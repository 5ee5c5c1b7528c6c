"""What operators do to rows, one file for each noun; admin, REST and CLI only call these."""
