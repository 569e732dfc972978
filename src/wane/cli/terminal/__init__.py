"""Output on a terminal: text, tables, the picture of a window, progress, signals."""
