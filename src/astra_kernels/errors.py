"""The exception tree: broken setups and machines. A bad kernel is never an exception.

    AstraError
    ├── UserError        what the user gave cannot be used            exit code 2
    │   ├── ProblemError     a problem directory, field by field
    │   ├── RunError         a run directory that cannot be read or written
    │   ├── ExportRefused    a patch for a framework's tree cannot be made
    │   └── ModelRejected    a provider refuses every request: no key, no such model
    ├── SetupError       a tool or package is missing here            exit code 3
    │   └── ToolchainNotFound
    ├── MachineFault     the machine broke: lost device, full disk     exit code 4; retried, never charged to a candidate
    ├── ModelFault       a language model gave no usable answer        an agent's refusal: the run goes on
    ├── BudgetSpent      the next request could go over a limit        the search ends with the best so far
    └── NothingToExport  a run without a confirmed win                 exit code 1

Every message names the file and field where there is one, and says what to do next.
"""


class AstraError(Exception):
    """Base of everything Astra raises on purpose."""

    exit_code = 1


class UserError(AstraError):
    """What the user gave cannot be used; the message says what to change."""

    exit_code = 2


class ProblemError(UserError):
    """A problem directory is missing, malformed or inconsistent."""


class RunError(UserError):
    """A run directory cannot be created, read or continued."""


class ExportRefused(UserError):
    """A change cannot be made a patch of this tree; the message says what stands in the way."""


class ModelRejected(UserError):
    """A provider refuses whatever it is asked: the key, the name of the model or the account is wrong."""


class ModelFault(AstraError):
    """A language model gave no usable answer, however often it was asked."""


class BudgetSpent(AstraError):
    """The next request to a language model could go over a limit of the run."""


class NothingToExport(AstraError):
    """A run holds no candidate that is confirmed to be better anywhere."""


class SetupError(AstraError):
    """A tool or package that the job needs is not installed on this machine."""

    exit_code = 3


class ToolchainNotFound(SetupError):
    """No usable CUDA compiler was found."""


class MachineFault(AstraError):
    """The machine failed, not the kernel: a lost device, a full disk, a killed worker."""

    exit_code = 4
