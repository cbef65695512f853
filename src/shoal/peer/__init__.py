"""One whole peer, still pure: it owns the machines, routes events, carries news between them."""
