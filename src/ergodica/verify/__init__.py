"""Is it right? Certificates, the completeness theorem, exact discrete laws, and audits of anybody's sampler."""

from ergodica.report import Check, Report
from ergodica.verify.audit import Audit, FamilyAudit, audit, audit_family
from ergodica.verify.certificate import certify, certify_sde
from ergodica.verify.completeness import rebuild_curl
from ergodica.verify.discrete import exact_law

__all__ = [
    "Audit",
    "Check",
    "FamilyAudit",
    "Report",
    "audit",
    "audit_family",
    "certify",
    "certify_sde",
    "exact_law",
    "rebuild_curl",
]
