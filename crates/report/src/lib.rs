//! Plots, tables and self-contained pages.
