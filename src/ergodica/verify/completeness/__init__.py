"""Theorem 2 as a tool: the curl Q of a drift that leaves a law invariant."""

from ergodica.verify.completeness.rebuild import NoCurlError, rebuild_curl
from ergodica.verify.completeness.rebuilt_curl import RebuiltCurl

__all__ = ["NoCurlError", "RebuiltCurl", "rebuild_curl"]
