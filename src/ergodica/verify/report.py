"""Moved to ergodica.report."""

from ergodica.report import Check, Report

__all__ = ["Check", "Report"]
