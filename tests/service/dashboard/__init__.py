"""A package: so its browser and its server end with its last test, not with the session."""
