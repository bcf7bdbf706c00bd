"""Decision loops: their events, their state, and what can be done with them."""
