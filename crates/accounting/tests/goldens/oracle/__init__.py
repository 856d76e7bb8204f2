"""Slow, independent oracles for the accountant; see ../README.md."""
