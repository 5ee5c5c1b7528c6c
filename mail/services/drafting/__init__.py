"""Drafts answers, keeps their versions, and follows what the person does with them."""
