"""The mail app's job types: each handler calls one service and translates its errors."""
