"""Features: how a context and an arm become a vector, and what a log of such vectors adds up to."""
