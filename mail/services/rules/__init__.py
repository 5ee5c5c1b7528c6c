"""Rules, directions and routing: what people set, and what holds for a message."""
