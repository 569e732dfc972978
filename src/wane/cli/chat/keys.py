"""The keys of the chat, besides those of every prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from prompt_toolkit.key_binding import KeyBindings

if TYPE_CHECKING:
    from prompt_toolkit.buffer import Buffer
    from prompt_toolkit.key_binding import KeyPressEvent


class Host(Protocol):
    """The chat, as the keys use it."""

    def interrupt(self, buffer: Buffer) -> None:
        """Handle Ctrl-C."""

    def take_back(self, buffer: Buffer) -> bool:
        """Take the last queued line back into an empty prompt; False if there is none."""

    def unfold(self) -> None:
        """Write the whole of what was last shown in part."""


def chat_keys(host: Host) -> KeyBindings:
    """Return the keys of a chat."""
    keys = KeyBindings()

    @keys.add("c-c")
    def _(event: KeyPressEvent) -> None:
        host.interrupt(event.current_buffer)

    @keys.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("c-o")
    def _(_event: KeyPressEvent) -> None:
        host.unfold()

    @keys.add("up")
    def _(event: KeyPressEvent) -> None:
        if not host.take_back(event.current_buffer):
            event.current_buffer.auto_up(count=event.arg)

    return keys
