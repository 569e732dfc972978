"""A strategy that shows the latest items alone."""

from wane.strategies.none import Uncapped
from wane.strategies.strategy import Fitted, Traits


class Latest(Uncapped):
    name = "latest"
    summary = "only the latest items are sent"
    traits = Traits(bounded=False, takes="oldest")

    def fit(self, *, cold: bool = False) -> Fitted:
        return Fitted(self._view[-4:], ran=len(self._view) > 4)
