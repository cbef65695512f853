"""Shoal runs thousands of continuous SQL queries on the Spark you already have."""
