//! `[performance]`: what only changes speed and memory.

use super::DeviceChoice;
use super::declare::{section, words};

section! {
    /// The `[performance]` section. Nothing in it can change epsilon, and nothing in it is hashed.
    pub struct Performance = "performance" {
        threads: u32 =
            ("the number of worker threads", "2")
                .or("one for each core");
        microbatch: u64 =
            ("the number of records computed at once", "16");
        prefetch: u64 =
            ("the number of batches decoded ahead", "2")
                .or("2");
        device: DeviceChoice =
            ("where gradients are computed: auto, cpu, cuda, cuda:N, several cards cuda:N,M.. or cuda:all", "cuda:0")
                .or("auto: a GPU where one can be used");
        precision: FactorPrecision =
            ("how a GPU rounds the factors of products", "f32")
                .or("f32");
        patience: f64 =
            ("the number of seconds that ranks which share a run wait for each other before all of them end", "60")
                .or("300");
        progress: ProgressKind =
            ("how a run shows itself on stderr: a bar on a terminal and lines elsewhere, lines everywhere, or not at all", "lines")
                .or("auto");
    }
}

words! {
    /// How a GPU rounds the factors of products. With each choice, norms, sums, noise and optimiser are in single precision or better.
    #[derive(Default)]
    pub enum FactorPrecision {
        /// Not at all, as on the processor: single precision.
        #[default]
        F32 = "f32",
        /// To 11 significant bits, with the range of single precision.
        Tf32 = "tf32",
        /// To 8 significant bits, with the range of single precision.
        Bf16 = "bf16",
    }
}

words! {
    /// How a run shows its progress.
    #[derive(Default)]
    pub enum ProgressKind {
        /// A bar on a terminal, a line now and then elsewhere.
        #[default]
        Auto = "auto",
        /// Lines everywhere, for logs.
        Lines = "lines",
        /// Not at all.
        Never = "never",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PlanSpec;

    #[test]
    fn a_plan_holds_them_and_refuses_others() {
        let mut spec = PlanSpec::default();
        spec.set("performance.precision", "bf16").unwrap();
        assert_eq!(spec.performance.precision, Some(FactorPrecision::Bf16));
        assert_eq!(PlanSpec::from_toml(&spec.to_toml()).unwrap(), spec);
        assert!(spec.set("performance.precision", "f16").is_err());
        for precision in [FactorPrecision::F32, FactorPrecision::Tf32, FactorPrecision::Bf16] {
            spec.set("performance.precision", precision.name()).unwrap();
            assert_eq!(spec.performance.precision, Some(precision));
        }
    }

    #[test]
    fn what_is_given_replaces_what_was() {
        let run = Performance { threads: Some(2), device: Some(DeviceChoice::Cpu), ..Performance::default() };
        let over = Performance { device: Some(DeviceChoice::Cuda(0)), ..Performance::default() };
        let merged = run.merge(&over);
        assert_eq!((merged.threads, merged.device), (Some(2), Some(DeviceChoice::Cuda(0))));
        assert_eq!(run.merge(&Performance::default()), run);
    }
}
