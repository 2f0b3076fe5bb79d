"""The event table: its columns, one row of it, and what a row means to the rules."""
