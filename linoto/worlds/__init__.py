"""Make a world and play in it: bandits, simulation, preview, the flights that ship."""
