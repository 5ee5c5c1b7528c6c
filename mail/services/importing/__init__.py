"""Puts mail from files into the local Gmail."""
