"""Classifiers, offline and by a language model, and the clients of the models."""
