"""Other packages: our policies as they expect one, and their models behind our gates."""
