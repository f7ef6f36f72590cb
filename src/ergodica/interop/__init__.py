"""Bridges to other libraries, one module each: `from ergodica.interop import blackjax`. Nothing else imports them."""
