"""Pages for people: one self-contained file each, with nothing fetched from anywhere."""
