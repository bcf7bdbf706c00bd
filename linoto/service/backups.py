"""Backups that the service makes by itself, at set times, of which the newest few are kept."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection
from pathlib import Path

from linoto.service.maintenance import backup

logger = logging.getLogger("linoto.service")
AGAIN = 60.0  # seconds after a backup that failed


class Backups:
    """The backups of a database in a folder: `loops-20260131T120000Z.sqlite`, by the time they were begun."""

    def __init__(
        self,
        db: Path,
        folder: Path,
        *,
        every: float,
        kept: int,
        clock: Callable[[], float] = time.time,
        damaged: Collection[str] = (),
    ) -> None:
        if not folder.is_dir():
            raise ValueError(f"backups must be a folder, got {folder}")
        self.db, self.folder, self.every, self.kept, self.clock = db, folder, every, kept, clock
        self.damaged = damaged  # loops that cannot be read: an old backup may be the last one that has them

    def all(self) -> list[Path]:
        """Those there are, oldest first."""
        return sorted(self.folder.glob(f"{self.db.stem}-[0-9]*T[0-9]*Z.sqlite"))

    def age(self) -> float | None:
        """Seconds since the newest one was complete; None where there is none."""
        found = self.all()
        return max(0.0, self.clock() - found[-1].stat().st_mtime) if found else None

    async def run(self) -> None:
        """Make one whenever it is due, until cancelled."""
        while True:
            age = self.age()
            await asyncio.sleep(0.0 if age is None else max(0.0, self.every - age))
            try:
                await asyncio.to_thread(self.make)
            except (OSError, ValueError) as error:
                logger.error("no backup", extra={"error": str(error)})
                await asyncio.sleep(min(AGAIN, self.every))

    def make(self) -> Path:
        """One more; those beyond the newest few are deleted once it is complete, if no loop is damaged."""
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(self.clock()))
        out = self.folder / f"{self.db.stem}-{stamp}.sqlite"
        backup(self.db, out)
        logger.info("backup", extra={"file": str(out)})
        old = self.all()[: -self.kept]
        if old and self.damaged:
            loops = ", ".join(self.damaged)
            logger.warning(
                "old backups are kept: loops are damaged", extra={"loops": loops, "kept": len(old)}
            )
            return out
        for each in old:
            each.unlink(missing_ok=True)
        return out
