"""The approvals of a file, run by run: what waits for a reviewer, and what was decided."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..eventlog import EventLog
from ..eventlog.commands import exact_str
from ..memory.entry import MemoryEntry
from ..memory.event_sourced import EventSourcedStore
from ..memory.reserved import APPROVAL_PREFIX
from .approval_record import ApprovalRecord
from .approval_steps import approval_key
from .arguments import a_log
from .store_run import StoreRun

__all__ = ["KeptApproval", "kept_approvals"]


@dataclass(frozen=True, slots=True)
class KeptApproval:
    """The record of an approval as a run keeps it now.

    Attributes:
        run: the run.
        id: the request that the key names.
        position: of the event that last changed the record.
        text: what is kept, unchecked.
    """

    run: str
    id: str
    position: int
    text: str

    def read(self) -> ApprovalRecord:
        """The record.

        Raises:
            DurableApprovalError: see `ApprovalLedger.get`.
        """
        return ApprovalRecord.read(self.text, self.id)


def kept_approvals(
    log: EventLog, run: str | None = None, request_id: str | None = None
) -> Iterator[KeptApproval]:
    """The approvals kept in a run, or with None in every run; oldest run and oldest request first.

    A fork does not inherit its parent's.

    Args:
        request_id: only that of this request.

    Raises:
        NotFound: there is no such run.
    """
    if request_id is not None:
        exact_str("request_id", request_id)
    names = (
        [info.run.name for info in a_log(log).runs()] if run is None else [a_log(log).lineage(run).run.name]
    )
    return _each_kept(log, names, request_id)


def _each_kept(log: EventLog, names: list[str], request_id: str | None) -> Iterator[KeptApproval]:
    for name in names:
        where, store = StoreRun(log, name), EventSourcedStore(log, name)
        if request_id is None:
            entries = store.scan(APPROVAL_PREFIX)
        else:
            entries = filter(None, [store.get(approval_key(request_id))])
        for entry in entries:
            if not where.is_inherited(entry.version):
                yield _kept(name, entry)


def _kept(run: str, entry: MemoryEntry) -> KeptApproval:
    return KeptApproval(run, entry.key.removeprefix(APPROVAL_PREFIX), entry.version or 0, entry.value)
