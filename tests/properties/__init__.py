"""Property tests with Hypothesis, against simple models."""
