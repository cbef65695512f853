"""Bytes to messages and stored changes, and back; no sockets, no files, no knowledge of meaning."""
