//! The programs of a training step on a card: that of the whole model, and one for each of its submodels.

use dapple_graph::Graph;

use super::Precision;
use super::error::CudaError;
use super::lower::CardSteps;
use super::program::CardProgram;
use crate::error::EngineError;
use crate::layout::Layout;

/// Training programs, each planned when it is first needed. All of them find parameters and tables where the whole model has them.
#[derive(Debug)]
pub(crate) struct CardPrograms {
    submodels: Vec<Graph>,
    /// The program of the whole model, then those of the submodels.
    programs: Vec<Option<CardProgram>>,
    /// The program that was chosen last, for which the memory is laid out.
    last: Option<usize>,
    /// How many samples run together, in all of them.
    together: usize,
}

impl CardPrograms {
    pub(crate) fn new(submodels: Vec<Graph>) -> Self {
        let programs = (0..=submodels.len()).map(|_| None).collect();
        Self { submodels, programs, last: None, together: 0 }
    }

    /// Whether they are planned for this many views.
    pub(crate) fn are_for(&self, views: usize) -> bool {
        self.programs[0].as_ref().is_some_and(|program| program.views == views)
    }

    /// Begins anew with a program of the whole model.
    pub(crate) fn begin(&mut self, whole: CardProgram, together: usize) {
        self.programs.iter_mut().for_each(|program| *program = None);
        self.programs[0] = Some(whole);
        (self.last, self.together) = (None, together);
    }

    /// Plans the program of a submodel, or chooses that of the whole model. Says whether another program was chosen before.
    ///
    /// # Errors
    /// A submodel that does not exist, or whose weights would lie elsewhere than those of the whole model.
    pub(crate) fn choose(
        &mut self,
        (whole, layout, steps): (&Graph, &Layout, &CardSteps),
        submodel: Option<usize>,
        precision: Precision,
    ) -> Result<bool, CudaError> {
        let number = submodel.map_or(0, |submodel| submodel + 1);
        if let Some(submodel) = submodel.filter(|_| self.programs.get(number).is_none_or(Option::is_none)) {
            let submodels = self.submodels.len();
            let graph = self.submodels.get(submodel).ok_or(EngineError::Submodel { submodel, submodels })?;
            let views = self.programs[0].as_ref().expect("the whole model is planned first").views;
            let program = CardProgram::of_submodel((graph, whole), layout, views, precision);
            if !program.steps.lie_alike(steps) {
                return Err(EngineError::Parameters.into());
            }
            self.programs[number] = Some(program);
        }
        Ok(self.last.replace(number) != Some(number))
    }

    /// The program that was chosen last, and how many samples run together.
    pub(crate) fn chosen(&self) -> (&CardProgram, usize) {
        let program = self.last.and_then(|number| self.programs[number].as_ref());
        (program.expect("a program was chosen before"), self.together)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dapple_graph::zoo;

    /// A model on the card is laid out for the whole graph, and its submodels must find everything there, whatever the precision.
    #[test]
    fn submodels_find_weights_and_tables_where_the_whole_model_has_them() {
        let vit = zoo::VisionTransformer::named("vit-ti-16").unwrap();
        let group = zoo::Norm::Group(32);
        let mut tail = zoo::resnet(zoo::ResNet::R50, &[3, 64, 64], 10, group).unwrap();
        tail.set_trainable(|name| name.starts_with("layer3.2") || name.starts_with("layer3.4"));
        for (graph, blocks) in [
            (zoo::wide_resnet(zoo::WideResNet::W16x4, &[3, 32, 32], 10).unwrap(), vec![1, 3, 5]),
            (zoo::resnet(zoo::ResNet::R50, &[3, 64, 64], 10, group).unwrap(), (8..13).collect()),
            (tail, (8..13).collect()),
            (zoo::vision_transformer(vit, &[3, 128, 128], 10).unwrap(), (2..8).collect()),
            (zoo::mobilenet_v2(&[3, 32, 32], 10, zoo::Norm::Group(8)).unwrap(), vec![4, 5]),
        ] {
            let layout = Layout::new(&graph);
            for precision in [Precision::F32, Precision::Tf32, Precision::Bf16] {
                let inference = CardProgram::inference(&graph, precision);
                let whole = CardProgram::training(&graph, &layout, 1, precision);
                let mut programs = CardPrograms::new(graph.submodels(&blocks, 2).unwrap());
                programs.begin(whole, 8);
                for (submodel, changed) in
                    [(None, true), (Some(0), true), (Some(0), false), (Some(1), true), (None, true)]
                {
                    let own = (&graph, &layout, &inference.steps);
                    assert_eq!(programs.choose(own, submodel, precision), Ok(changed));
                    let (program, _) = programs.chosen();
                    assert_eq!(program.sources.len(), layout.entries().len());
                }
                let [whole, own] = [0, 1].map(|number| programs.programs[number].as_ref().unwrap());
                assert!(own.item_len <= whole.item_len && own.written <= whole.written);
                assert!(
                    own.runs.iter().filter(|runs| **runs).count()
                        < whole.runs.iter().filter(|runs| **runs).count()
                );
                let none = programs.choose((&graph, &layout, &inference.steps), Some(2), precision);
                assert!(matches!(
                    none,
                    Err(CudaError::Engine(EngineError::Submodel { submodel: 2, submodels: 2 }))
                ));
            }
        }
    }
}
