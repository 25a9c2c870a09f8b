"""A process that appends events: `python writer.py FILE_OR_ADDRESS COUNT SESSION...`, round robin, time-stamped.

Prints one JSON document: how many commits failed and with what."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

from holdfast.core.clock import Ids, SystemClock
from holdfast.core.database.opening import open_database
from holdfast.core.database.place import Place, is_postgres
from holdfast.core.event.log import EventLog
from holdfast.core.session.projector import SESSION_PROJECTORS
from holdfast.schema.manifest import MANIFEST
from holdfast.schema.session_event import Synthetic

WINDOW = 8


async def main(place: Place, count: int, sessions: list[str]) -> None:
    database = open_database(place)
    ids = Ids(SystemClock())
    log = EventLog(database, MANIFEST, SESSION_PROJECTORS, ids)
    gate = asyncio.Semaphore(WINDOW)
    failures: list[str] = []

    async def append(index: int) -> None:
        async with gate:
            event = Synthetic(
                timestamp=time.time_ns() // 1_000_000,
                session_id=sessions[index % len(sessions)],
                message_id=ids.message(),
                text=str(time.time_ns()),
            )
            try:
                await log.publish(event)
            except Exception as error:  # noqa: BLE001 - reported to the test, whatever it is
                failures.append(f"{type(error).__name__}: {error}")

    await asyncio.gather(*(append(index) for index in range(count)))
    await log.close()
    database.close()
    print(json.dumps({"failures": failures}))


if __name__ == "__main__":
    given = sys.argv[1]
    asyncio.run(main(given if is_postgres(given) else Path(given), int(sys.argv[2]), sys.argv[3:]))
