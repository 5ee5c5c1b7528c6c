"""The mail app's job types: each loads, calls one service, and translates its errors."""
