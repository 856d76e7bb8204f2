//! Features of the private or the public part of every record.

use dapple_data::{DataError, FixedParts};
use dapple_graph::Parameters;
use rayon::prelude::*;

use super::{FeatureMachine, FeatureProgress, TOGETHER};
use crate::error::TrainError;

/// What a model says about the part of each record, and behind it whether there is anything of the part to be seen. What it would say about
/// nothing is left out: zeros stand there. `None` if the computation was asked to stop.
///
/// # Shapes
/// The values are `[records, length + 1]`.
///
/// # Errors
/// A record that cannot be read, a model that cannot be run.
pub(super) fn outputs(
    machine: &mut FeatureMachine,
    parameters: &Parameters,
    parts: &FixedParts,
    length: usize,
    told: FeatureProgress<'_>,
) -> Result<Option<Vec<f32>>, TrainError> {
    let mut loaded = machine.executor.load(parameters)?;
    let mut values = Vec::with_capacity(parts.count() * (length + 1));
    for first in (0..parts.count()).step_by(TOGETHER) {
        let records = first..parts.count().min(first + TOGETHER);
        let mut inputs = vec![0.0; records.len() * parts.length()];
        let rows = inputs.par_chunks_exact_mut(parts.length()).zip(records.clone());
        let seen: Vec<bool> =
            rows.map(|(input, record)| parts.show(record, input)).collect::<Result<_, DataError>>()?;
        let outputs = loaded.forward(&inputs)?;
        for (output, seen) in outputs.chunks_exact(length).zip(seen) {
            match seen {
                true => values.extend_from_slice(output),
                false => values.resize(values.len() + length, 0.0),
            }
            values.push(f32::from(seen));
        }
        if told(records.end).is_break() {
            return Ok(None);
        }
    }
    Ok(Some(values))
}
