"""Deliver: results go on to the sinks of their users."""
