"""Theorem 2 as a tool: the curl Q of a drift that leaves a law invariant (`rebuild`)."""
