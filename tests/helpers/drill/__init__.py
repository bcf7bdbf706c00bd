"""A drill: servers on one PostgreSQL are killed, paused and cut off under load, and then the books are read.

It sees what any caller sees: three addresses, of which some answer. What was acknowledged is kept by who was
told so (`visits.py`), what is in the database is read by SQL (`verdict.py`), and both must agree.
"""
