//! Figures of a page, each with a name under which it can be written to a file.

use dapple_report::Figure;
use dapple_report::graphic::Graphic;

use crate::run::RunFigure;

/// A chart as a figure of a page.
pub(crate) fn chart(name: &'static str, figure: Figure) -> RunFigure {
    RunFigure { name, whole: figure.graphic(), bare: figure.bare().graphic() }
}

/// A picture that has no title as a figure of a page.
pub(crate) fn picture(name: &'static str, graphic: Graphic) -> RunFigure {
    RunFigure { name, bare: graphic.clone(), whole: graphic }
}
