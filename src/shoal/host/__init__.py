"""A real process around one peer: sockets, timers, disk, keys, and a way to ask it things."""
