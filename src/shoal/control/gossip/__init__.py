"""The gossip machine."""
