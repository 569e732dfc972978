"""Gemini's protocol: what it says (`contents`) and what it refuses (`rules`)."""

from wane.testing.gemini.contents import Gemini

__all__ = ["Gemini"]
