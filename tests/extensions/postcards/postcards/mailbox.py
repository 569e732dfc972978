"""A store for a proxy that forgets everything when it ends."""

from wane.proxy.store.stores import MemoryStore


class Mailbox(MemoryStore):
    def __init__(self, location: str, keep: float) -> None:
        super().__init__()
        self.location = location
        self.keep = keep
