//! Models as data: nodes, shapes, named parameters, the model zoo, weights files.
