"""Ask several repositories the same question, a few at a time, with a progress bar.

One host serves all of them: a session belongs to the directory that it is created with.

    python examples/batch.py [--question TEXT] DIRECTORY...
"""

import argparse
import asyncio
from pathlib import Path

import click

from holdfast import ActivityFailed, ApiError, Holdfast

MODEL = "demo/echo"
AT_ONCE = 4


async def main(directories: list[Path], question: str) -> int:
    slots = asyncio.Semaphore(AT_ONCE)
    answers: dict[Path, str] = {}
    failures: dict[Path, str] = {}

    async def work(directory: Path) -> None:
        async with slots:
            try:
                answers[directory] = (await hf.run(question, model=MODEL, directory=directory)).text
            except (ActivityFailed, ApiError) as error:
                failures[directory] = str(error)
        bar.update(1)

    with click.progressbar(length=len(directories), label="repositories", show_pos=True) as bar:
        # Nobody is there to answer a permission request: deny it, so that a session cannot wait for ever.
        async with Holdfast(unattended="deny") as hf, asyncio.TaskGroup() as group:
            for directory in directories:
                group.create_task(work(directory))

    for directory in directories:
        click.echo(f"{directory.name}: {answers.get(directory) or 'failed: ' + failures[directory]}")
    return 1 if failures else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directories", nargs="+", type=Path, metavar="DIRECTORY")
    parser.add_argument("--question", default="What does README.md say in its first line?")
    given = parser.parse_args()
    raise SystemExit(asyncio.run(main(given.directories, given.question)))
