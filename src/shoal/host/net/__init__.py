"""Connections between hosts: who may connect, who is at the other end, what waits to be sent."""
