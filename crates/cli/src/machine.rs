//! Where to compute, for the verbs that run a model.

use clap::Args;
use dapple_plan::spec::{DeviceChoice, Performance};

#[derive(Debug, Args)]
pub(crate) struct MachineFlags {
    /// Where to compute: auto, cpu, cuda, cuda:N, several cards cuda:N,M.. or cuda:all [default: as in the plan, else auto, a GPU where one
    /// can be used]
    #[arg(long, value_name = "DEVICE")]
    device: Option<DeviceChoice>,
}

impl MachineFlags {
    /// The settings that replace those of the plan.
    pub(crate) fn performance(&self) -> Performance {
        Performance { device: self.device.clone(), ..Performance::default() }
    }
}
