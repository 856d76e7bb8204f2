"""What can be wrong, and what to do about it.

    DappleError
      PlanError                 the plan is not what it should be
        UnsoundPipelineError    data would reach the model in a way that breaks the guarantee
        NoTheoremError          a combination that no built-in theorem covers
      AccountingError           the accountant has no answer
        UnreachableError        no value of the unknown meets the target

>>> import dapple
>>> try:
...     dapple.account(batch=5000, records=3000, epochs=1, noise_multiplier=1.0, delta=1e-5)
... except dapple.PlanError as error:
...     print(error.hint)
give a batch of at most 3000, or check records
"""

from __future__ import annotations

__all__ = [
    "AccountingError",
    "DappleError",
    "NoTheoremError",
    "PlanError",
    "RunError",
    "UnreachableError",
    "UnsoundPipelineError",
]


class DappleError(ValueError):
    """Any error of this package. Its message is one line that names the place, and `hint` says what to do about it."""

    hint: str | None

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message, hint)
        self.hint = hint
        # From Python 3.11 on, tracebacks show notes.
        if hint is not None and hasattr(self, "add_note"):
            self.add_note(f"hint: {hint}")

    def __str__(self) -> str:
        return str(self.args[0])


class PlanError(DappleError):
    """A plan, or a value of one, that is missing or makes no sense."""


class UnsoundPipelineError(PlanError):
    """Data would reach the model in another way than the one that is priced."""


class NoTheoremError(PlanError):
    """A combination that no built-in theorem covers."""


class AccountingError(DappleError):
    """The accountant has no answer: a number out of its range, or an epsilon too large to report."""


class UnreachableError(AccountingError):
    """No value of the unknown meets the target."""


class RunError(DappleError):
    """A run that cannot begin, go on or be read: its folder, its ledger, its weights, or the machine."""
