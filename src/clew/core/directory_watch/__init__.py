"""Which directories may have changed, by notices of the system.

    watches = DirectoryWatches(root)      CannotWatchError: this system, or file system, gives no notices
    watches.watch([b"", b"a", b"a/b"])    paths below the root; CannotWatchError: there are too many watches
    watches.changes()                     directories in which something happened, and why that may not be all

It may report too many directories, never too few: whenever it cannot tell, it says so (`Changes.lost`, or the
error), and the caller looks at everything, as it would without. It has no thread of its own; a caller that
wants to wait for the next change waits for `fileno()` to become readable, or polls.
"""

from __future__ import annotations

from clew.core.directory_watch.watches import CannotWatchError as CannotWatchError
from clew.core.directory_watch.watches import Changes as Changes
from clew.core.directory_watch.watches import DirectoryWatches as DirectoryWatches
