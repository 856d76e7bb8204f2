"""Differential privacy for vision models that counts every source of randomness that training already has.

A `Plan` says what is protected, how records are drawn, what happens to an image, how much noise there is and for how long.
`account` prices it, `calibrate` solves it for one unknown, `profile` and `sweep` compute curves, and `inclusion_probability` tells
how likely a crop is to see a private region. Underneath is the algebra of `Pld`; `Rdp` is a second opinion.
`train` carries a plan out, `resume` goes on after a stop or a crash, `Run` reads what they leave, and `predict` asks the model.

`dapple.torch` draws records and crops as a plan says; `dapple.opacus` trains with Opacus by a plan; `dapple.dp_accounting`
exchanges distributions with Google's library. Each of these needs its library; this module needs none.

>>> import dapple
>>> certificate = dapple.account(
...     image=(1000, 1000), crop=(100, 100), patch=(10, 10),
...     sampling="poisson", batch=100, records=3000, epochs=100,
...     noise_multiplier=1.0, delta=1e-5,
... )
>>> round(certificate.epsilon, 3)
0.192
"""

from dapple._dapple import (
    Calibration,
    Certificate,
    Inclusion,
    Plan,
    Pld,
    Rdp,
    RunCertificate,
    Sampler,
    TrainingEvent,
    __version__,
    account,
    calibrate,
    inclusion,
    inclusion_probability,
    keywords,
    profile,
    resume,
    sweep,
    train,
)
from dapple.errors import (
    AccountingError,
    DappleError,
    NoTheoremError,
    PlanError,
    RunError,
    UnreachableError,
    UnsoundPipelineError,
)
from dapple.run import Predicted, Run, predict
from dapple.table import Table

__all__ = [
    "AccountingError",
    "Calibration",
    "Certificate",
    "DappleError",
    "Inclusion",
    "NoTheoremError",
    "Plan",
    "PlanError",
    "Pld",
    "Predicted",
    "Rdp",
    "Run",
    "RunCertificate",
    "RunError",
    "Sampler",
    "Table",
    "TrainingEvent",
    "UnreachableError",
    "UnsoundPipelineError",
    "__version__",
    "account",
    "calibrate",
    "inclusion",
    "inclusion_probability",
    "keywords",
    "predict",
    "profile",
    "resume",
    "sweep",
    "train",
]
