"""Alert rules, and their evaluation on a live cluster."""
