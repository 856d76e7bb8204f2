//! The model of a federated run, and the file that keeps it from round to round.

use std::collections::HashMap;
use std::path::Path;

use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};

use super::error::FederatedError;
use crate::digest;
use crate::error::{TrainError, one_line};
use crate::files;
use crate::ledger::{History, LedgerError};

/// The key under which the file tells how many rounds had been spent.
const ROUND: &str = "round";
/// The key under which the file tells the last line of the ledger that it knows.
const LEDGER: &str = "ledger";
/// The key under which the file tells the order of the arrays.
const ORDER: &str = "order";

/// The arrays of a model and their values, one after the other.
#[derive(Debug, Clone, PartialEq)]
pub struct FederatedModel {
    /// Name and shape of each array, in order.
    arrays: Vec<(String, Vec<usize>)>,
    values: Vec<f32>,
}

impl FederatedModel {
    /// A model of these arrays.
    ///
    /// # Errors
    /// More or fewer values than the arrays hold.
    pub fn new(arrays: Vec<(String, Vec<usize>)>, values: Vec<f32>) -> Result<Self, FederatedError> {
        let expected = arrays.iter().map(|(_, shape)| shape.iter().product::<usize>()).sum();
        match values.len() == expected {
            true => Ok(Self { arrays, values }),
            false => Err(FederatedError::Model { expected, found: values.len() }),
        }
    }

    /// Name and shape of each array, in order.
    #[must_use]
    pub fn arrays(&self) -> &[(String, Vec<usize>)] {
        &self.arrays
    }

    /// All values, array by array.
    #[must_use]
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// The same arrays with other values.
    pub(super) fn set(&mut self, values: &[f32]) -> Result<(), FederatedError> {
        if values.len() != self.values.len() {
            return Err(FederatedError::Model { expected: self.values.len(), found: values.len() });
        }
        self.values.copy_from_slice(values);
        Ok(())
    }

    /// Writes the model that is known after the rounds that a ledger counts. Returns the digest of the file.
    pub(super) fn write(&self, path: &Path, history: &History) -> Result<String, TrainError> {
        let wrong = |problem: String| TrainError::Checkpoint { path: path.to_owned(), problem };
        let bytes: Vec<u8> = self.values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let mut rest = &bytes[..];
        let mut views = Vec::with_capacity(self.arrays.len());
        for (name, shape) in &self.arrays {
            let (own, left) = rest.split_at(4 * shape.iter().product::<usize>());
            rest = left;
            let view =
                TensorView::new(Dtype::F32, shape.clone(), own).map_err(|error| wrong(one_line(error)))?;
            views.push((name.as_str(), view));
        }
        let names: Vec<&str> = self.arrays.iter().map(|(name, _)| name.as_str()).collect();
        let metadata = HashMap::from([
            (ROUND.to_owned(), history.spent().to_string()),
            (LEDGER.to_owned(), history.position().1.to_owned()),
            (ORDER.to_owned(), serde_json::json!(names).to_string()),
        ]);
        let file = safetensors::serialize(views, Some(metadata)).map_err(|error| wrong(one_line(error)))?;
        files::write_atomic(path, &file)?;
        Ok(digest::of(&[&file]))
    }

    /// Reads the model of a run, and how many rounds had been spent when it was written.
    ///
    /// # Errors
    /// A file that is damaged, or that knows of more rounds than the ledger counts.
    pub(super) fn read(path: &Path, history: &History) -> Result<(Self, u64), TrainError> {
        let wrong = |problem: String| TrainError::Checkpoint { path: path.to_owned(), problem };
        let bytes = files::read(path)?;
        let (_, metadata) = SafeTensors::read_metadata(&bytes).map_err(|error| wrong(one_line(error)))?;
        let known = |key: &str| metadata.metadata().as_ref().and_then(|all| all.get(key)).cloned();
        let round = known(ROUND).and_then(|round| round.parse().ok());
        let names = known(ORDER).and_then(|order| serde_json::from_str::<Vec<String>>(&order).ok());
        let (Some(round), Some(line), Some(names)) = (round, known(LEDGER), names) else {
            return Err(wrong("it does not tell its round".to_owned()));
        };
        let witness = || "model.safetensors".to_owned();
        let behind = match () {
            () if round > history.spent() => {
                Some(LedgerError::Behind { witness: witness(), step: round, spent: history.spent() })
            }
            () if !history.has_line(&line) => Some(LedgerError::Forgotten { witness: witness() }),
            () => None,
        };
        if let Some(source) = behind {
            return Err(TrainError::Ledger { path: path.with_file_name("ledger.jsonl"), source });
        }
        let tensors = SafeTensors::deserialize(&bytes).map_err(|error| wrong(one_line(error)))?;
        let (mut arrays, mut values) = (Vec::with_capacity(names.len()), Vec::new());
        for name in names {
            let view = tensors.tensor(&name).map_err(|error| wrong(one_line(error)))?;
            if view.dtype() != Dtype::F32 {
                return Err(wrong(format!("{name} is not in single precision")));
            }
            let own = view
                .data()
                .chunks_exact(4)
                .map(|four| f32::from_le_bytes([four[0], four[1], four[2], four[3]]));
            values.extend(own);
            arrays.push((name, view.shape().to_vec()));
        }
        Ok((Self::new(arrays, values)?, round))
    }
}
