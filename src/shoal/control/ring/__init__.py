"""The ring: who is next to whom, who owns a key, who is gone. `machine.py` is where to begin."""
