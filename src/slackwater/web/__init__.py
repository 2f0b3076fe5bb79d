"""HTML pages: one self-contained file each, without external resources."""
