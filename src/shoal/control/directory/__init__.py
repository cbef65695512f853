"""The directory machine."""
