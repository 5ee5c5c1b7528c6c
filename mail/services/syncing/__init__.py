"""Makes the store equal to Gmail: fetch, parse, store, mirror, watch."""
