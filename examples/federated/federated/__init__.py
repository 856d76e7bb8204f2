"""Fashion photographs on two machines, whose owners learn a model together."""
