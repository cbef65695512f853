"""The mesh's own authority, and whom a host lets in."""
