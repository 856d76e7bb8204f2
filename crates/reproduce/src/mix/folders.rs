//! The folders behind `--data`, `--weights` and `--pool`: what of a table they let one train.

use std::path::{Path, PathBuf};

use super::catalogue::{MixData, MixModel, MixPool, PaperAccuracy};
use super::trained::AccuracyTable;
use crate::error::{ReproduceError, Result};
use crate::options::Training;

/// The folders that a table of real images is trained from.
#[derive(Debug)]
pub(super) struct GivenFolders<'a> {
    data: &'a Path,
    /// Weights and pools, where models are fine-tuned.
    tuning: Option<(&'a Path, &'a Path)>,
}

impl<'a> GivenFolders<'a> {
    /// The folders that the flags name, none of which may be missing.
    pub(super) fn new(flags: &'a Training, tuned: bool) -> Result<Self> {
        let missing = |flag: &str, hint: &str| {
            let message = format!("this scale trains on real images: {flag} is missing");
            ReproduceError::request(message, format!("{hint}, or use --scale tiny"))
        };
        let data_hint = if tuned { TUNED_DATA } else { SCRATCH_DATA };
        let data =
            flags.data.as_deref().ok_or_else(|| missing("--data", &format!("give --data {data_hint}")))?;
        if !tuned {
            return Ok(Self { data, tuning: None });
        }
        let weights = flags.weights.as_deref().ok_or_else(|| missing("--weights", WEIGHTS))?;
        let pool = flags.pool.as_deref().ok_or_else(|| missing("--pool", POOL))?;
        Ok(Self { data, tuning: Some((weights, pool)) })
    }

    pub(super) fn data(&self, data: MixData) -> PathBuf {
        self.data.join(data.folder())
    }

    pub(super) fn weights(&self, model: MixModel) -> Option<PathBuf> {
        self.tuning.map(|(weights, _)| weights.join(format!("{}.safetensors", model.key())))
    }

    pub(super) fn pool(&self, pool: MixPool, data: MixData) -> Option<PathBuf> {
        self.tuning.map(|(_, pools)| pools.join(pool.folder()).join(data.folder()))
    }

    /// The cells that can be trained, and what the others lack. A data set is trained by all methods of the table or by none, so that
    /// they can be compared.
    pub(super) fn cells(&self, table: &AccuracyTable) -> Result<(Vec<PaperAccuracy>, Vec<String>)> {
        let mut absent = Absent::default();
        let mut there = |cell: &&PaperAccuracy| absent.look_for(self, table, cell);
        let cells: Vec<PaperAccuracy> = table.cells.iter().filter(&mut there).copied().collect();
        let absent = absent.sentences();
        match cells.is_empty() {
            false => Ok((cells, absent)),
            true => {
                let hint = match self.tuning {
                    None => "the folder behind --data holds cifar-10, cifar-100 or eurosat",
                    Some(_) => FOLDERS,
                };
                Err(ReproduceError::request(absent.join("; "), hint))
            }
        }
    }
}

const SCRATCH_DATA: &str =
    "a folder that holds cifar-10, cifar-100 (binary files) or eurosat (train/CLASS, test/CLASS)";
const TUNED_DATA: &str = "a folder that holds cifar-10, cifar-100 (binary files), eurosat, caltech-256, sun-397 or oxford-pet (train/CLASS, test/CLASS)";
const WEIGHTS: &str =
    "give --weights a folder that holds vit-b-16.safetensors (OpenCLIP's) or convnext-b.safetensors (timm's)";
const POOL: &str = "give --pool a folder that holds synthetic/cifar-10/CLASS and so on, for mix/table10 real/cifar-10/CLASS too";
const FOLDERS: &str = "--data holds folders like cifar-10, --weights vit-b-16.safetensors or convnext-b.safetensors, --pool folders like synthetic/cifar-10";

/// What the folders do not hold.
#[derive(Debug, Default)]
struct Absent {
    data: Vec<String>,
    weights: Vec<String>,
    pools: Vec<String>,
}

impl Absent {
    /// Whether everything is there that a data set and a model of a table need; what is not is remembered.
    fn look_for(&mut self, folders: &GivenFolders<'_>, table: &AccuracyTable, cell: &PaperAccuracy) -> bool {
        let has_data = folders.data(cell.data).is_dir();
        if !has_data {
            remember(&mut self.data, cell.data.name().to_owned());
        }
        let has_weights = folders.weights(cell.model).is_none_or(|weights| weights.is_file());
        if !has_weights {
            remember(&mut self.weights, cell.model.name().to_owned());
        }
        let mut has_pools = true;
        for pool in table.pools() {
            if folders.pool(pool, cell.data).is_some_and(|pool| !pool.is_dir()) {
                has_pools = false;
                remember(&mut self.pools, format!("{}/{}", pool.folder(), cell.data.folder()));
            }
        }
        has_data && has_weights && has_pools
    }

    fn sentences(&self) -> Vec<String> {
        let Self { data, weights, pools } = self;
        let parts = [
            ("--data: there is no folder of", data),
            ("--weights: there is no file of", weights),
            ("--pool: there is no folder", pools),
        ];
        let there = parts.into_iter().filter(|(_, names)| !names.is_empty());
        there.map(|(says, names)| format!("{says} {}", names.join(", "))).collect()
    }
}

fn remember(names: &mut Vec<String>, name: String) {
    if !names.contains(&name) {
        names.push(name);
    }
}
