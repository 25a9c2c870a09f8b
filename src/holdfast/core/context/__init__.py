"""System Context: what the model is told about its surroundings, and the epochs in which that stays the same."""
