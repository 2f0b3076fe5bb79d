"""The event table: its schema, its rows, and predicates on rows."""
