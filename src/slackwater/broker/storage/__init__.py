"""Topics and partition logs on disk."""
