"""A budget of any scope, period and kind, looked at and spent from in hundredths of it."""

USD = 10**12
CENT = USD // 100
SCOPES = {"board": {}, "plan": {"plan": "default"}, "task": {"task_id": "a"}, "agent": {"agent": "ann"}}
PERIODS = ("lifetime", "day")
KINDS = {"usd": ("pusd", "estimate_usd", USD, "1"), "tokens": ("tokens", "estimate_tokens", 100, 100)}
"""Of each limit: the name in the books, the estimate, a hundred hundredths of it, and those as an argument."""


class Purse:
    """A budget of a hundred of something, looked at and spent from in hundredths."""

    def __init__(self, board, kind, key):
        self.name, self.estimate, self.unit, self.full = KINDS[kind]
        self._board, self._key = board, key
        board.budgets.set(**key, **{kind: self.full})

    def size(self, hundredths):
        """So many hundredths as a task's estimate."""
        return {self.estimate: f"{hundredths / 100:.2f}" if self.name == "pusd" else hundredths}

    def use(self, lease, hundredths):
        """Record so many for an attempt."""
        used = {"cost_usd": f"{hundredths / 100:.2f}"} if self.name == "pusd" else {"output_tokens": hundredths}
        return self._board.ledger.record(lease=lease, **used)

    def books(self):
        """Spent, reserved, left, in hundredths."""
        budget = self._board.budgets.get(**self._key)
        found = (getattr(budget, f"{what}_{self.name}") for what in ("spent", "reserved", "left"))
        return tuple(amount * 100 // self.unit for amount in found)
