"""An engine that runs steps in an invented world: in memory, on invented time, at invented cost."""
