"""An invented world: many peers, one clock, one seed. It drives `Peer.handle` and nothing else."""
