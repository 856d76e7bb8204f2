//! The programs of a training step: that of the whole model, and one for each of its submodels.

use dapple_graph::Graph;

use super::CpuOptions;
use super::arranged::ArrangedWeights;
use super::program::{self, CpuProgram};
use super::sum::{GradientSum, Numbers};
use super::worker::grow;
use crate::error::EngineError;
use crate::layout::Layout;
use pulp::bytemuck;

/// Training programs, each planned when it is first needed. Submodels have the nodes and parameters of the whole model, so that all of them
/// add to one sum.
#[derive(Debug)]
pub(crate) struct StepPrograms {
    submodels: Vec<Graph>,
    /// The program of the whole model, then those of the submodels.
    programs: Vec<Option<CpuProgram>>,
    /// The number of views that they are planned for.
    views: usize,
    /// The program that ran last, for which the workers have their buffers.
    last: Option<usize>,
}

impl StepPrograms {
    /// # Errors
    /// A submodel whose gradients do not lie as those of the whole model.
    pub(crate) fn new(layout: &Layout, submodels: Vec<Graph>) -> Result<Self, EngineError> {
        if submodels.iter().any(|submodel| Layout::new(submodel) != *layout) {
            return Err(EngineError::Parameters);
        }
        let programs = (0..=submodels.len()).map(|_| None).collect();
        Ok(Self { submodels, programs, views: 0, last: None })
    }

    /// Plans the program of a submodel, or of the whole model, for samples of this many views. Says whether another program ran before, so
    /// that the workers' buffers are of no use to this one.
    ///
    /// # Errors
    /// A submodel that does not exist.
    pub(crate) fn choose(
        &mut self,
        (whole, layout): (&Graph, &Layout),
        submodel: Option<usize>,
        views: usize,
        options: &CpuOptions,
    ) -> Result<bool, EngineError> {
        graph(whole, &self.submodels, submodel)?;
        if self.views != views {
            self.programs.iter_mut().for_each(|program| *program = None);
            (self.views, self.last) = (views, None);
        }
        let number = number(submodel);
        // The whole model is planned in any case, because its submodels keep to its memory; and with the first submodel all of them, before there are
        // buffers, because what is kept for good would come to lie between these and the allocator could not give their memory to the next submodel.
        let others = if submodel.is_some() { &self.submodels[..] } else { &[] };
        for (number, graph) in std::iter::once(whole).chain(others).enumerate() {
            if self.programs[number].is_none() {
                let like = self.programs[0].as_ref();
                self.programs[number] = Some(CpuProgram::training(graph, layout, views, options, like));
            }
        }
        Ok(self.last.replace(number) != Some(number))
    }

    /// The options with which the program that was chosen last runs: a submodel's samples take no more memory together than those of the
    /// whole model would, though more of them might fit.
    pub(crate) fn options(&self, options: &CpuOptions) -> CpuOptions {
        match (self.last, &self.programs[0]) {
            (Some(1..), Some(whole)) => CpuOptions { memory: whole.worker_bytes(options), ..*options },
            _ => *options,
        }
    }

    /// The program that was chosen last, and its graph.
    pub(crate) fn chosen<'a>(&'a self, whole: &'a Graph) -> (&'a Graph, &'a CpuProgram) {
        let number = self.last.expect("a program was chosen before");
        let graph = number.checked_sub(1).map_or(whole, |submodel| &self.submodels[submodel]);
        (graph, self.programs[number].as_ref().expect("what is chosen is planned"))
    }

    /// The program of the whole model; `None` before the first batch.
    pub(crate) fn whole(&self) -> Option<&CpuProgram> {
        self.programs[0].as_ref()
    }

    /// Brings a sum into the order of the layout. It was carried over if `wide` is set.
    pub(crate) fn export(
        &self,
        layout: &Layout,
        weights: &ArrangedWeights,
        (sum, wide): (&mut GradientSum, bool),
        spare: &mut Vec<i64>,
    ) {
        let programs = self.programs.iter().flatten();
        let len = program::spare(programs.clone(), layout);
        grow(spare, if wide { len } else { len.div_ceil(2) });
        match sum.numbers() {
            Numbers::Whole(_) if wide => program::export(programs, layout, weights, sum.carried(), spare),
            Numbers::Whole(values) => {
                program::export(programs, layout, weights, values, bytemuck::cast_slice_mut(spare));
            }
            Numbers::Plain(values) => {
                program::export(programs, layout, weights, values, bytemuck::cast_slice_mut(spare));
            }
        }
    }
}

/// The place of a program among all.
fn number(submodel: Option<usize>) -> usize {
    submodel.map_or(0, |submodel| submodel + 1)
}

/// The graph of a submodel, or of the whole model.
fn graph<'a>(
    whole: &'a Graph,
    submodels: &'a [Graph],
    submodel: Option<usize>,
) -> Result<&'a Graph, EngineError> {
    match submodel {
        None => Ok(whole),
        Some(submodel) => {
            submodels.get(submodel).ok_or(EngineError::Submodel { submodel, submodels: submodels.len() })
        }
    }
}
