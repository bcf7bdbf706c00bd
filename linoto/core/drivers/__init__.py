"""How a round is measured: by arms that stay the same, or by arms that the round brings. An agent has one."""
