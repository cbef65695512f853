"""What peers decide: pure machines, strangers to one another."""
