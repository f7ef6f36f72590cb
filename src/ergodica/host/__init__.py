"""What the package asks of the machine it runs on: files, locks, signals, threads, memory, a terminal.

The lowest layer: nothing here knows of targets, recipes or topics, and every other layer may import it.
"""
