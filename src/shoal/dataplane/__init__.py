"""The contract: what control may ask of any engine, and what an engine reports."""
