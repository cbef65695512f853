"""Streams as tables: commit, read, watermark, retain. The only room that knows deltalake."""
