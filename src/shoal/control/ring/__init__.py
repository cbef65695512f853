"""The ring machine."""
