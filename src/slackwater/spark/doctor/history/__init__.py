"""A cluster's history as Spark reads it: files to lines, lines to rows, rows to the event table."""
