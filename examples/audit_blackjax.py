"""What do blackjax's stochastic-gradient kernels sample? Each on known laws, with exact gradients.

Prints the tables of docs/explanation/audit.md, in about three minutes on two cores; --quick takes fewer laws and less
than a minute, --json prints data.
"""

import argparse
import json

import ergodica as eg
from ergodica.interop import blackjax as adapters


def in_use(step_size, effort):
    """SGNHT at the step size that somebody uses, on the standard Gaussian in 10 dimensions."""
    target = eg.gallery.gaussian(10)
    init, step, read = adapters.sgnht()(target.potential, 1.0)
    return eg.audit(step, target, init=init, read=read, step_size=step_size, effort=effort)


def main():
    parser = argparse.ArgumentParser(description="audits of blackjax's stochastic-gradient kernels")
    parser.add_argument("--quick", action="store_true", help="fewer laws, wider intervals")
    parser.add_argument("--json", action="store_true", help="print data in place of tables")
    options = parser.parse_args()
    settings = {"dims": (1,), "temperatures": (1.0,), "effort": 0.02} if options.quick else {}
    reports = {
        "SGLD": eg.audit_family(adapters.sgld(), **settings),
        "SGHMC": eg.audit_family(adapters.sghmc(), **settings),
        "SGNHT at step size 0.1": in_use(0.1, effort=0.02 if options.quick else 1.0),
    }
    if options.json:
        print(json.dumps({name: report.to_dict() for name, report in reports.items()}, indent=2))
        return
    for name, report in reports.items():
        print(f"blackjax's {name}\n{report}\n")


if __name__ == "__main__":
    main()
