//! Writes the model that a finished run leaves for others.

use dapple_graph::{tune, weights};

use super::Run;
use crate::digest;
use crate::error::TrainError;
use crate::files;

impl Run {
    /// Writes the weights with the names of the library that the model comes from, and returns the SHA-256 of the file. Adapters are
    /// merged into the model, and also written to a file of their own together with the last layers that were trained.
    pub(super) fn write_model(&mut self) -> Result<String, TrainError> {
        let graph = &self.prepared.graphs[0];
        let parameters = self.trainer.weights()?;
        let bytes = if tune::adapters(graph).is_empty() {
            weights::write(graph, parameters)?
        } else {
            files::write_atomic(&self.folder.adapters(), &weights::write_trained(graph, parameters)?)?;
            let classes = self.prepared.data.train.classes() as usize;
            let plain = self.prepared.blueprint.plain().build(graph.input_shape(), classes, 0.0)?;
            weights::write(&plain, &tune::merged(graph, parameters, &plain)?)?
        };
        files::write_atomic(&self.folder.model(), &bytes)?;
        Ok(digest::of(&[&bytes]))
    }
}
