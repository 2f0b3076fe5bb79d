"""What must hold for every input: Hypothesis against simple models."""
