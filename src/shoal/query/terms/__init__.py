"""What a predicate is made of: types, the expression tree, literals, and its text as Spark SQL."""
