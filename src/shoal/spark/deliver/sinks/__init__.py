"""Sinks: where results go, and how each kind makes a repeated write harmless."""
