"""Theorem 1 as a certificate: for a recipe (`recipe_certificate`) and for a hand-written SDE (`sde_certificate`)."""
