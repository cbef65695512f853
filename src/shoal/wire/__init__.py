"""Bytes to messages and back; no sockets, and no knowledge of what messages mean."""
