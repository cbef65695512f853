"""SQL statements over a mesh: carried out in order, and what they show."""
