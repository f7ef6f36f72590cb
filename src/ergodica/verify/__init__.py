"""Is it right? Certificates, the completeness theorem, exact discrete laws, and audits of anybody's sampler."""

from ergodica.verify.certificate import certify
from ergodica.verify.discrete import exact_law
from ergodica.verify.report import Check, Report

__all__ = ["Check", "Report", "certify", "exact_law"]
