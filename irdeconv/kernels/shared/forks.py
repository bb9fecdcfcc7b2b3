"""What threads hold when their process forks, the child makes anew: it has none of them."""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakValueDictionary


class Renewable(Protocol):
    """What has locks or threads of its own."""

    def after_fork(self) -> None:
        """Replace, in the child, what a thread other than this one may have held."""


# By identity: who is equal to another one is still renewed.
_KNOWN: WeakValueDictionary[int, Renewable] = WeakValueDictionary()


def renew_in_children(one: Renewable) -> None:
    """Call `one.after_fork` in every child that is forked while it lives."""
    _KNOWN[id(one)] = one


def _renew() -> None:
    for one in list(_KNOWN.values()):
        one.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
