"""Context managers of other libraries as strategies, run through their public API. Needs the `peers` extra.

Before every model call, as in real use, each gets the whole history in messages of its own library; what it sends is
read back as items. Messages are made once, and token counts are those of the items wherever the library takes a
counter. Results are not corrected: if a library breaks a rule, so does the view.
"""
