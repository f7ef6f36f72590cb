"""The paper, redone: every figure and table of it, and its claims with what came out."""
