"""Windows: which there are, what they are made of, and when they are due. Pure."""
