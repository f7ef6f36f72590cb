"""Theorem 1 as a certificate: for a recipe (`certify`) and for a hand-written SDE (`certify_sde`)."""

from ergodica.verify.certificate.recipe_certificate import certify
from ergodica.verify.certificate.sde_certificate import SdeCertificate, certify_sde

__all__ = ["SdeCertificate", "certify", "certify_sde"]
