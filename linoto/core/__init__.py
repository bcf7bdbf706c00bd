"""Decide: which arm to play next, what can be afforded, and what is promised."""
