"""The product's only way to Gmail, and the local Gmail it runs on without an account."""
