"""What Shoal is compared with: the papers' own methods, named after the papers."""
