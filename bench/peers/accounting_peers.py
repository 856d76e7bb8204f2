"""One adapter per peer: each answers with its own defaults and its own upper bound, as its users would.

An adapter imports its package when made. A question that a peer has no way to ask raises NotImplementedError.
"""

import importlib.util
import sys
import types


class Peer:
    def epsilon(self, sigma, rate, steps, delta):
        raise NotImplementedError

    def calibrate(self, epsilon, rate, steps, delta):
        raise NotImplementedError

    def profile(self, sigma, rate, steps, epsilons):
        raise NotImplementedError

    def patch(self, sigma, rate, steps, delta):
        """The two-sided profile of a substituted patch; no peer has this relation."""
        raise NotImplementedError


class DpAccounting(Peer):
    """Google's dp_accounting: its PLD accountant with the default grid of 1e-4."""

    def __init__(self):
        import dp_accounting
        from dp_accounting import pld

        self.package, self.pld = dp_accounting, pld

    def event(self, sigma, rate, steps):
        step = self.package.PoissonSampledDpEvent(rate, self.package.GaussianDpEvent(sigma))
        return self.package.SelfComposedDpEvent(step, steps)

    def epsilon(self, sigma, rate, steps, delta):
        return self.pld.PLDAccountant().compose(self.event(sigma, rate, steps)).get_epsilon(delta)

    def calibrate(self, epsilon, rate, steps, delta):
        return self.package.calibrate_dp_mechanism(
            self.pld.PLDAccountant, lambda sigma: self.event(sigma, rate, steps), epsilon, delta
        )

    def profile(self, sigma, rate, steps, epsilons):
        step = self.pld.privacy_loss_distribution.from_gaussian_mechanism(sigma, sampling_prob=rate)
        return step.self_compose(steps).get_delta_for_epsilon(epsilons)


class PrvAccountant(Peer):
    """Microsoft's prv_accountant with its default error in epsilon, 0.1."""

    def __init__(self):
        from prv_accountant.dpsgd import DPSGDAccountant, find_noise_multiplier

        self.accountant, self.find_noise_multiplier = DPSGDAccountant, find_noise_multiplier

    def epsilon(self, sigma, rate, steps, delta):
        # The documentation asks for an error in delta of about a thousandth of delta.
        accountant = self.accountant(sigma, rate, steps, delta_error=delta / 1000)
        return accountant.compute_epsilon(delta, steps)[2]

    def calibrate(self, epsilon, rate, steps, delta):
        return self.find_noise_multiplier(rate, steps, epsilon, delta)

    def profile(self, sigma, rate, steps, epsilons):
        # compute_delta would compose anew for every point; its upper bound is this shifted estimate.
        accountant = self.accountant(sigma, rate, steps)
        estimate = accountant.compute_composition(steps).compute_delta_estimate
        return [estimate(epsilon - accountant.eps_error) + accountant.delta_error for epsilon in epsilons]


class Opacus(Peer):
    """The PRV accountant of opacus with its default error in epsilon, 0.01."""

    def __init__(self):
        # Only opacus.accountants is loaded: the package's own front door imports PyTorch, which accounting never calls.
        spec = importlib.util.find_spec("opacus")
        if spec is None:
            raise ImportError("opacus")
        front = types.ModuleType("opacus")
        front.__path__ = spec.submodule_search_locations
        optimizers = types.ModuleType("opacus.optimizers")
        optimizers.DPOptimizer = object
        sys.modules.update({"opacus": front, "opacus.optimizers": optimizers})
        from opacus.accountants import PRVAccountant
        from opacus.accountants.utils import get_noise_multiplier

        self.accountant, self.get_noise_multiplier = PRVAccountant, get_noise_multiplier

    def epsilon(self, sigma, rate, steps, delta):
        accountant = self.accountant()
        accountant.history = [(sigma, rate, steps)]
        return accountant.get_epsilon(delta)

    def calibrate(self, epsilon, rate, steps, delta):
        return self.get_noise_multiplier(
            target_epsilon=epsilon, target_delta=delta, sample_rate=rate, steps=steps, accountant="prv"
        )


class Opake(Peer):
    """opake's PLD accountant (a Rust extension) with its default grid of 1e-4."""

    def __init__(self):
        allow_weak_references()
        from opake.accounting import calibrate, epsilon_budget
        from opake.api.accounting.dpsgd import gaussian, poisson

        self.solve, self.budget, self.gaussian, self.poisson = calibrate, epsilon_budget, gaussian, poisson

    def training(self, sigma, rate, steps):
        return self.poisson(self.gaussian(sigma), sample_rate=rate) * steps

    def epsilon(self, sigma, rate, steps, delta):
        return self.training(sigma, rate, steps).epsilon_at(delta)

    def calibrate(self, epsilon, rate, steps, delta):
        found = self.solve(self.budget(epsilon, delta), lambda sigma: self.training(sigma, rate, steps), 0.3, 20.0)
        return found.param

    def profile(self, sigma, rate, steps, epsilons):
        training = self.training(sigma, rate, steps)
        return [training.delta_at(epsilon) for epsilon in epsilons]


def allow_weak_references():
    """Early patch releases of Python refuse `weakref_slot` under an abstract base that already has the slot."""
    import dataclasses

    original = dataclasses.dataclass

    def dataclass(cls=None, /, **options):
        options.pop("weakref_slot", None)
        return original(cls, **options)

    dataclasses.dataclass = dataclass


PEERS = {"dp_accounting": DpAccounting, "prv_accountant": PrvAccountant, "opacus": Opacus, "opake": Opake}
