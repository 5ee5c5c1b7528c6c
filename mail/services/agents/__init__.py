"""Agents: profiles, the tools they may use, and the loop that runs them."""
