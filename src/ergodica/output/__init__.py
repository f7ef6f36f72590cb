"""Draws with names, and the files that hold them: what a run leaves, and what ArviZ reads."""
