"""A durable job queue in the firm's own database."""

VERSION = "0.2.0.dev0"
