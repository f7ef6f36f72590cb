"""The audit of anybody's step: what law does it sample, and is it the one that it claims?"""

from ergodica.verify.audit.engine import audit
from ergodica.verify.audit.family import FamilyAudit, audit_family
from ergodica.verify.audit.result import Audit, Estimate

__all__ = ["Audit", "Estimate", "FamilyAudit", "audit", "audit_family"]
