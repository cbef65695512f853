"""What a commit costs, and whether it stays that way."""
