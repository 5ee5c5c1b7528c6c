"""Classifiers: the one offline classifier, and the protocol any other must meet."""
