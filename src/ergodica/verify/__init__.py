"""Is it right? Certificates, the completeness theorem, exact discrete laws, and audits of anybody's sampler.

certificate/    Theorem 1: `eg.certify` for a recipe, `eg.certify_sde` for a hand-written SDE.
completeness/   Theorem 2: `eg.rebuild_curl`.
discrete/       `eg.exact_law` of a discrete chain on a Gaussian target.
audit/          `eg.audit` and `eg.audit_family`: a black-box step, by running it.

Nothing is imported here, so that each of these loads only what it needs.
"""
