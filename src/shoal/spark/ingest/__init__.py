"""Ingest: sources become streams of the log, step by step."""
