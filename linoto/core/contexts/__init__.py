"""Contexts: every round brings its own arms, as vectors of features."""
