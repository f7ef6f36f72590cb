"""The audit of anybody's step (`audit_step`) and of a sampler for any potential (`family`): what do they sample?

black_box -> chains -> trials, ladder (step sizes) -> law_tests, one_step, noise (statistics) -> checks -> report
"""
