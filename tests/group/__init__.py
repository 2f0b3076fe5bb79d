"""Tests of the pure core, one directory per part."""
