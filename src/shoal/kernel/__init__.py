"""The words everyone uses: errors, instants, names and identities. Imports nothing of Shoal."""
