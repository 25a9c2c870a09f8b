"""A transfer that is killed at a commit of either store: `killed_transfer.py SOURCE TARGET NUMBER before|after`. The
number 0 kills nothing; then the counts are printed, with that of the commits."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from holdfast.core.database.place import is_postgres
from holdfast.core.database.transfer import transfer as transfers
from holdfast.core.database.transfer.opening import open_source, open_target

GROUP_ROWS = 100


def main() -> None:
    source, target = (text if is_postgres(text) else Path(text) for text in sys.argv[1:3])
    at, when = int(sys.argv[3]), sys.argv[4]
    commits = 0

    def counted(commit: Any) -> Any:
        def run() -> None:
            nonlocal commits
            commits += 1
            if commits == at and when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            commit()
            if commits == at:
                os.kill(os.getpid(), signal.SIGKILL)

        return run

    transfers.GROUP_ROWS = GROUP_ROWS
    stores: list[Any] = [open_source(source), open_target(target)]
    for store in stores:
        store._commit = counted(store._commit)
    done = transfers.Transfer(*stores, source_lives=lambda _: False, target_lives=lambda _: False).run()
    print(json.dumps({"copied": done.copied, "rows": done.rows, "commits": commits}))


if __name__ == "__main__":
    main()
