"""What a peer must not forget: its durable store, and which of its lives this is."""
