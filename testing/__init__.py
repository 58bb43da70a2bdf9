"""The contract of a store as a suite of pytest tests, for whoever writes a store of their own.

    import pytest
    from turnlog.testing import StoreContract

    class TestMyStore(StoreContract):
        @pytest.fixture
        def open_store(self):
            return MyStore

Every rule is one test, and a test that fails says which rule was broken. Abilities that a store may have or
lack are held to their rules where the store has them. `docs/custom-stores.md` walks through it.

Needs pytest, which the library itself does not: `pip install '.[testing]'` in a clone of the repository.
"""

from pkgutil import iter_modules

try:
    import pytest
except ImportError as error:
    raise ImportError(
        "turnlog.testing holds tests for pytest, which is not installed here: "
        "pip install pytest, or '.[testing]' in a clone"
    ) from error

# Before they are imported: only then do their assertions show what was found and what was expected.
pytest.register_assert_rewrite(*(module.name for module in iter_modules(__path__, f"{__name__}.")))

from .blocking import Blocking, Loop  # noqa: E402
from .clocks import Clock, StandingClock, WallClock  # noqa: E402
from .contract import AsyncStoreContract, StoreContract  # noqa: E402

__all__ = [
    "AsyncStoreContract",
    "Blocking",
    "Clock",
    "Loop",
    "StandingClock",
    "StoreContract",
    "WallClock",
]
