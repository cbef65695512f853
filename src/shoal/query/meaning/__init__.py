"""What the text of a signature means, computed here: a second reading beside Spark's own."""
