"""The async face: the same names, the same semantics, over the same core."""

from clew.aio.session import AsyncRun as AsyncRun
from clew.aio.session import AsyncSession as AsyncSession
from clew.aio.store import AsyncStore as AsyncStore
from clew.aio.store import copy_async as copy_async
from clew.aio.store import open_async as open_async
