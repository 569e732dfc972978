"""Sessions of Wane itself: the journals of its agent and its proxy."""
