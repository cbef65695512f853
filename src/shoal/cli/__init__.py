"""The composition root: joins log and Spark into one process for people and programs."""
