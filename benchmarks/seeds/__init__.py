"""Thousands of seeds over all scenarios of the simulator."""
