"""The exact law of the discrete chain on a Gaussian target (`exact`)."""
