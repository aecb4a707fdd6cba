"""What clients ask about the background jobs of a session: which there are, what they printed, and that one be ended."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from palaver.engine.parts import Parts
from palaver.errors import Refused


class JobControl(Parts):
    async def jobs(self, session_id: str) -> dict[str, Any]:
        """In the order of their start; those that ended not long ago too."""
        async with self.sessions.using(session_id) as session:
            return {"jobs": [asdict(job) for job in self.calls.jobs.list(session.id)]}

    async def kill_job(self, session_id: str, job_id: str) -> dict[str, Any]:
        """One that has ended stays as it is."""
        async with self.sessions.using(session_id) as session:
            if all(job.id != job_id for job in self.calls.jobs.list(session.id)):
                raise Refused("not_found", f"This session has no background job {job_id}.")
            return asdict(await self.calls.jobs.end(job_id))
