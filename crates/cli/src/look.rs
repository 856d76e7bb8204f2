//! How images are looked at and where this is computed, for the verbs that ask a model.

use clap::Args;
use dapple_plan::spec::EvaluationKind;
use dapple_train::Look;

use crate::machine::MachineFlags;

#[derive(Debug, Args)]
pub(crate) struct LookFlags {
    /// Crops along each side of an image whose answers are averaged, where an image has one class [default: as in the plan]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    grid: Option<u32>,
    /// Sees each image at once, where every pixel has a class [default: as in the plan]
    #[arg(long, conflicts_with = "sliding")]
    whole: bool,
    /// Sees each image window by window instead, in windows of the size of a crop, with this step as a share of the window [default step: 2/3]
    #[arg(long, value_name = "STEP", num_args = 0..=1, require_equals = true)]
    sliding: Option<Option<f64>>,
    #[command(flatten)]
    pub(crate) machine: MachineFlags,
}

impl From<&LookFlags> for Look {
    fn from(flags: &LookFlags) -> Self {
        let kind = match (flags.whole, flags.sliding) {
            (true, _) => Some(EvaluationKind::Whole),
            (false, Some(_)) => Some(EvaluationKind::Sliding),
            (false, None) => None,
        };
        Self { grid: flags.grid, kind, stride: flags.sliding.flatten() }
    }
}
