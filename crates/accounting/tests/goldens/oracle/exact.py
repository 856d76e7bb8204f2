"""Figures with a closed form or a one-dimensional integral, in mpmath arithmetic."""

import mpmath as mp

mp.mp.dps = 60


def upper_tail(x):
    return mp.erfc(x / mp.sqrt(2)) / 2


def log_upper_tail(x):
    return mp.log(upper_tail(x)) if x > 0 else mp.log1p(-upper_tail(-x))


def gaussian_delta(mu, epsilon):
    """delta(eps) = Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu)."""
    return upper_tail(epsilon / mu - mu / 2) - mp.exp(epsilon) * upper_tail(epsilon / mu + mu / 2)


def gaussian_epsilon(mu, delta):
    """Epsilon with gaussian_delta = delta to about 40 digits, or None where epsilon would be negative."""
    if gaussian_delta(mu, mp.mpf(0)) <= delta:
        return None
    return bisect(lambda e: gaussian_delta(mu, e) - delta, mp.mpf(0), mu * mu + 20 * mu)


def bisect(falling, low, high):
    for _ in range(200):
        middle = (low + high) / 2
        if falling(middle) > 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def components(kind, g, c):
    """P and Q as lists of (weight, centre), the loss growing with x."""
    g, c = mp.mpf(g), mp.mpf(c)
    if kind == "poisson-remove":
        return [(1 - g, 0), (g, 1)], [(1, 0)]
    if kind == "poisson-add":
        return [(1, 0)], [(1 - g, 0), (g, -1)]
    if kind == "poisson-replace":
        return [(1 - g, 0), (g, 1)], [(1 - g, 0), (g, -1)]
    if kind == "poisson-patch":
        return [(1 - g, 0), (g * (1 - c), -1), (g * c, 1)], [(1 - g, 0), (g, -1)]
    if kind == "without-replacement-patch":
        return [(1 - g * c, 0), (g * c, 2)], [(1, 0)]
    raise ValueError(kind)


def density(mixture, sigma, x):
    return sum(w * mp.npdf(x, m, sigma) for w, m in mixture)


def mass_above(mixture, sigma, x):
    return sum(w * upper_tail((x - m) / sigma) for w, m in mixture)


def single_step_delta(kind, g, c, sigma, epsilon):
    """P(A) - e^eps Q(A) on the half-line A where the loss exceeds eps (Neyman-Pearson)."""
    p, q = components(kind, g, c)
    sigma, epsilon = mp.mpf(sigma), mp.mpf(epsilon)
    factor = mp.exp(epsilon)

    def shortfall(x):
        return factor * density(q, sigma, x) - density(p, sigma, x)

    low, high = -60 * sigma - 2, 2 + 60 * sigma + epsilon * sigma**2
    if shortfall(high) >= 0:
        return mp.mpf(0)
    edge = bisect(shortfall, low, high)
    return mass_above(p, sigma, edge) - factor * mass_above(q, sigma, edge)


def single_step_delta_by_quadrature(kind, g, c, sigma, epsilon):
    """The same as the integral of (p - e^eps q)+ between all changes of sign, without using that the loss is monotone."""
    p, q = components(kind, g, c)
    sigma, factor = mp.mpf(sigma), mp.exp(mp.mpf(epsilon))

    def excess(x):
        return density(p, sigma, x) - factor * density(q, sigma, x)

    grid = [mp.mpf(k) * sigma / 2 for k in range(-44, 45)]
    total = mp.mpf(0)
    for left, right in zip(grid, grid[1:]):
        at_left, at_right = excess(left), excess(right)
        if at_left <= 0 and at_right <= 0:
            continue
        if at_left <= 0:
            left = bisect(lambda x: -excess(x), left, right)
        elif at_right <= 0:
            right = bisect(excess, left, right)
        total += mp.quad(excess, [left, right])
    return total


def renyi_divergence(q, sigma, order):
    """D_order((1-q) N(0) + q N(1) || N(0)), as log1p of the integral of (ratio^order - 1) dN(0).

    The integrand is analytic within pi sigma^2 of the real line and falls like a Gaussian, so the trapezoid rule with
    step h errs by about e^{-2 pi^2 sigma^2 / max(h sigma, h)}; halving the step must not change 25 digits.
    """
    q, sigma, order = mp.mpf(q), mp.mpf(sigma), mp.mpf(order)

    def integrand(x):
        ratio = 1 - q + q * mp.exp((2 * x - 1) / (2 * sigma**2))
        return (ratio**order - 1) * mp.npdf(x, 0, sigma)

    def trapezoid(step):
        low, high = -20 * sigma, order + 20 * sigma
        return step * mp.fsum(integrand(low + k * step) for k in range(int((high - low) / step) + 1))

    step = min(sigma / 2, sigma**2 / 4)
    value, finer = trapezoid(step), trapezoid(step / 2)
    assert abs(finer - value) < mp.mpf("1e-25") * abs(finer), (q, sigma, order)
    return mp.log1p(finer) / (order - 1)


def laplace_delta(scale, steps, epsilon):
    """T-fold Laplace mechanism of sensitivity 1, exactly.

    One loss has an atom 1/2 at 1/b, an atom e^{-1/b}/2 at -1/b, and the density e^{-1/(2b)} e^{L/2} / 4 between, so
    n continuous losses sum to a density c^n e^{y/2} f_n(y) with f_n the Irwin-Hall spline on [-n/b, n/b].
    """
    unit, total = 1 / mp.mpf(scale), mp.mpf(0)
    epsilon = mp.mpf(epsilon)
    for n in range(steps + 1):
        for top in range(steps - n + 1):
            bottom = steps - n - top
            weight = mp.factorial(steps) / (mp.factorial(n) * mp.factorial(top) * mp.factorial(bottom))
            weight *= mp.mpf("0.5") ** (top + bottom) * mp.exp(-unit * bottom)
            total += weight * laplace_tail(n, unit, epsilon - (top - bottom) * unit)
    return total


def laplace_tail(n, unit, threshold):
    """E[(1 - e^{threshold - Y})+] over the sum Y of n continuous losses (an unnormalised measure)."""
    if n == 0:
        return max(1 - mp.exp(threshold), mp.mpf(0))
    constant = (mp.exp(-unit / 2) / 4) ** n / mp.factorial(n - 1)
    total = mp.mpf(0)
    for i in range(n + 1):
        # One truncated power (y - knot)_+^{n-1} of the spline, integrated over [start, n/b].
        knot = (2 * i - n) * unit
        start = max(knot, threshold)
        if start < n * unit:
            term = mp.quad(
                lambda y: (1 - mp.exp(threshold - y)) * mp.exp(y / 2) * (y - knot) ** (n - 1), [start, n * unit]
            )
            total += (-1) ** i * mp.binomial(n, i) * term
    return constant * total
