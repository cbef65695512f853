"""Components of an invented engine: what they keep between steps, and what a step computes."""
