"""Select: thousands of selections as one join of tuples with a roster."""
