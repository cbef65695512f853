"""One ring of many peers: cost, hops, and what it bears."""
