"""The directory machine: records under keys, kept by whoever the ring makes their keeper."""
