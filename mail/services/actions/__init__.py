"""Actions in Gmail, and taking them back."""
