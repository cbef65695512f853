"""How people and programs on this machine talk to a running host."""
