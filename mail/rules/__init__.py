"""Rules that decide about a message without a language model."""
