"""What do blackjax's stochastic-gradient kernels sample? Each on known laws, with exact gradients.

    python examples/audit_blackjax.py             four to five minutes on two cores: the tables of docs/explanation/audit.md
    python examples/audit_blackjax.py --quick     less than a minute: fewer laws, wider intervals
    python examples/audit_blackjax.py --json      the same as data
"""

import argparse
import json

import ergodica as eg
from ergodica.interop import blackjax as adapters

KERNELS = {"SGLD": adapters.sgld(), "SGHMC": adapters.sghmc(), "SGNHT": adapters.sgnht()}


def in_use(build, step_size, effort):
    """One kernel at the step size that somebody uses, on the standard Gaussian in 10 dimensions."""
    target = eg.gallery.gaussian(10)
    init, step, read = build(target.potential, 1.0)
    return eg.audit(step, target, init=init, read=read, step_size=step_size, effort=effort)


def main():
    parser = argparse.ArgumentParser(description="audits of blackjax's stochastic-gradient kernels")
    parser.add_argument("--quick", action="store_true", help="fewer laws, wider intervals")
    parser.add_argument("--json", action="store_true", help="print data in place of tables")
    options = parser.parse_args()
    settings = {"dims": (1, 10), "effort": 0.05} if options.quick else {}
    reports = {name: eg.audit_family(build, **settings) for name, build in KERNELS.items()}
    reports["SGNHT at step size 0.1"] = in_use(KERNELS["SGNHT"], 0.1, effort=0.1 if options.quick else 1.0)
    if options.json:
        print(json.dumps({name: report.to_dict() for name, report in reports.items()}, indent=2))
        return
    for name, report in reports.items():
        print(f"blackjax's {name}\n{report}\n")


if __name__ == "__main__":
    main()
