"""Functions at twice the precision of f64, by mpmath with 60 digits: argument and value as sums of two f64.

Run: python3 double.py > double.txt
"""

from mpmath import mp, mpf, cos, exp, log, pi, sin, sqrt

mp.dps = 60


def split(value):
    high = float(value)
    return high, float(value - mpf(high))


def show(name, argument, function):
    x, x_low = split(argument)
    high, low = split(function(mpf(x) + mpf(x_low)))
    print(name, repr(x), repr(x_low), repr(high), repr(low))


for argument in [mpf(1) / 3, mpf(2) ** -16, mpf(2) ** -16 / 3, mpf(2) ** -80 / 7, 1 - mpf(2) ** -16 / 3, mpf(7) / 10, mpf(99) / 100]:
    show("ln", argument, log)
for argument in [mpf(1) / 3, -mpf(1) / 7, mpf(25) / 3, -mpf(100) / 3, mpf(133) / 3]:
    show("exp", argument, exp)
for argument in [mpf(2), mpf(1) / 3, mpf(200) / 7, mpf(2) ** -30 / 3]:
    show("sqrt", argument, sqrt)
for argument in [mpf(1) / 3, -mpf(1) / 7, mpf(499) / 1000, mpf(2) ** -20 / 3]:
    show("cos", argument, lambda a: cos(a * pi / 2))
    show("sin", argument, lambda a: sin(a * pi / 2))
