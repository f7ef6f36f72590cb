"""Theorem 1 as a certificate: for a recipe (`certify`) and for a hand-written SDE (`certify_sde`)."""

from ergodica.verify.certificate.handwritten import SdeCertificate, certify_sde
from ergodica.verify.certificate.recipe import certify

__all__ = ["SdeCertificate", "certify", "certify_sde"]
