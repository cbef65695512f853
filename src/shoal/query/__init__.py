"""SQL to plan, signature and parameters. Pure: decides nothing about running."""
