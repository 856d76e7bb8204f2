//! The folder of a run.

use std::path::{Path, PathBuf};

use dapple_data::{DataLimits, RecordPart, formats};
use dapple_geometry::Mask;
use dapple_plan::PlanSpec;

use crate::error::TrainError;
use crate::files;
use crate::ledger::LedgerClaim;

/// The names in a run folder. What lies in `private` is not covered by the guarantee and must stay where the data may be. Everything else
/// is computed from released and public values.
#[derive(Debug, Clone)]
pub(crate) struct Folder {
    root: PathBuf,
}

impl Folder {
    pub(crate) fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn plan(&self) -> PathBuf {
        self.root.join("plan.toml")
    }

    pub(crate) fn certificate(&self) -> PathBuf {
        self.root.join("certificate.json")
    }

    pub(crate) fn ledger(&self) -> PathBuf {
        self.root.join("ledger.jsonl")
    }

    pub(crate) fn metrics(&self) -> PathBuf {
        self.root.join("metrics.jsonl")
    }

    pub(crate) fn checkpoints(&self) -> PathBuf {
        self.root.join("checkpoints")
    }

    pub(crate) fn model(&self) -> PathBuf {
        self.root.join("model.safetensors")
    }

    /// What was trained of a model with adapters: the adapters and the last layers.
    pub(crate) fn adapters(&self) -> PathBuf {
        self.root.join("adapters.safetensors")
    }

    /// What the model sees and says.
    pub(crate) fn description(&self) -> PathBuf {
        self.root.join("model.json")
    }

    /// Losses and batch sizes of training.
    pub(crate) fn diagnostics(&self) -> PathBuf {
        self.root.join("private/diagnostics.jsonl")
    }

    /// Histograms of gradient norms.
    pub(crate) fn gradient_norms(&self) -> PathBuf {
        self.root.join("private/gradient-norms.jsonl")
    }

    /// Public values for TensorBoard.
    pub(crate) fn tensorboard(&self) -> PathBuf {
        self.root.join("tensorboard")
    }

    /// Values for TensorBoard that come straight from private records.
    pub(crate) fn private_tensorboard(&self) -> PathBuf {
        self.root.join("private/tensorboard")
    }

    /// Asks the process that trains the run to stop.
    pub(crate) fn stop_request(&self) -> PathBuf {
        self.root.join("private/stop")
    }

    /// The key that hides the fingerprint of the data set in the ledger.
    pub(crate) fn data_key(&self) -> PathBuf {
        self.root.join("private/data.key")
    }

    /// The key of what is drawn once for a whole run: the allocation of balanced sampling, or the groups that steps draw from in turn.
    pub(crate) fn sampling_key(&self) -> PathBuf {
        self.root.join("private/sampling.key")
    }

    /// What a frozen trunk makes of every record, or of the private or public part of every record.
    pub(crate) fn features(&self, part: Option<RecordPart>) -> PathBuf {
        self.root.join(match part {
            None => "private/features",
            Some(RecordPart::Private) => "private/features-private",
            Some(RecordPart::Public) => "private/features-public",
        })
    }

    fn mask(&self) -> PathBuf {
        self.root.join("mask.pgm")
    }

    fn private(&self) -> PathBuf {
        self.root.join("private")
    }

    /// Whether the part that is not covered by the guarantee is there. A folder may be passed on without it.
    pub(crate) fn has_private(&self) -> bool {
        self.private().is_dir()
    }

    /// Takes the folder for a new run, and makes it if it does not exist.
    ///
    /// Files that do not belong to a run are neither written over nor mixed with its files: the names that a run uses must be free,
    /// unless a process left them that died before the first line of its ledger.
    pub(crate) fn claim(&self) -> Result<LedgerClaim, TrainError> {
        let ledger = self.ledger();
        if ledger.exists() {
            return Err(TrainError::Exists { folder: self.root.clone() });
        }
        files::create_folders(&self.root)?;
        if !LedgerClaim::was_left(&ledger) {
            let names = [
                self.plan(),
                self.certificate(),
                self.metrics(),
                self.tensorboard(),
                self.checkpoints(),
                self.model(),
                self.adapters(),
                self.description(),
                self.private(),
                self.mask(),
                self.root.join("report.html"),
            ];
            if let Some(path) = names.into_iter().find(|path| path.symlink_metadata().is_ok()) {
                return Err(TrainError::InTheWay { path });
            }
        }
        let claim = LedgerClaim::take(&ledger)?;
        files::create_folders(&self.checkpoints())?;
        self.close_private()?;
        Ok(claim)
    }

    /// Makes what is not covered by the guarantee readable by its owner alone, which earlier versions did not do.
    pub(crate) fn close_private(&self) -> Result<(), TrainError> {
        files::create_private_folder(&self.private())?;
        let [diagnostics, norms] = [self.diagnostics(), self.gradient_norms()];
        let parts = [None, Some(RecordPart::Private), Some(RecordPart::Public)];
        let features = parts.map(|part| self.features(part));
        let files = [diagnostics, norms, self.data_key(), self.sampling_key()];
        files.iter().chain(&features).try_for_each(|path| files::close_to_others(path))
    }

    /// Writes the plan and the mask of a run.
    pub(crate) fn write_request(&self, spec: &PlanSpec, masks: &[Mask]) -> Result<(), TrainError> {
        if let Some(mask) = masks.first() {
            let size = mask.size();
            let mut bytes = format!("P5\n{} {}\n255\n", size.width(), size.height()).into_bytes();
            bytes.extend(mask.bytes().iter().map(|&private| if private == 0 { 0 } else { u8::MAX }));
            files::write_atomic(&self.mask(), &bytes)?;
        }
        files::write_atomic(&self.plan(), spec.to_toml().as_bytes())
    }

    /// Reads the plan and the mask of a run.
    pub(crate) fn read_request(&self) -> Result<(PlanSpec, Vec<Mask>), TrainError> {
        if !self.ledger().exists() {
            return Err(TrainError::NoRun { folder: self.root.clone() });
        }
        let path = self.plan();
        let text = files::read_text(&path)?;
        let spec = PlanSpec::from_toml(&text).map_err(|error| error.in_file(&path.display().to_string()))?;
        let masks = if self.mask().exists() { vec![self.read_mask()?] } else { Vec::new() };
        Ok((spec, masks))
    }

    fn read_mask(&self) -> Result<Mask, TrainError> {
        let path = self.mask();
        let picture = formats::decode(&files::read(&path)?, &path, &DataLimits::default())?;
        let dapple_data::Values::Bytes(values) = picture.values() else {
            return Err(TrainError::Changed { folder: self.root.clone(), what: "mask" });
        };
        let private = values.chunks_exact(picture.channels()).map(|pixel| pixel[0]).collect();
        Mask::from_bytes(picture.size(), private).map_err(|source| {
            TrainError::setting("region.mask", format!("{}: {source}", path.display()), "restore the file")
        })
    }
}
