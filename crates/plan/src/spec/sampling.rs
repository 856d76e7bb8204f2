//! `[sampling]`: which records a step sees, and how many steps there are.

use super::declare::section;
use crate::Scheme;

section! {
    /// The `[sampling]` section.
    pub struct SamplingSpec = "sampling" {
        scheme: Scheme =
            ("how a step draws its records", "poisson")
                .flag("sampling", "SCHEME")
                .or("poisson");
        batch: u64 =
            ("the number of records a step takes, a whole number", "100")
                .flag("batch", "B");
        records: u64 =
            ("the number of records in the data set, a whole number", "3000")
                .flag("records", "N");
        max_batch: u64 =
            ("the most records a step of poisson sampling takes; of more, a uniform subset is kept, and the price counts it", "150")
                .or("no limit");
        per_record: u64 =
            ("the number of steps of an epoch each record joins, for balanced sampling", "1")
                .flag("per-record", "K")
                .or("1 for balanced sampling");
        epochs: u64 =
            ("the number of passes over the data set, a whole number", "100")
                .flag("epochs", "E")
                .instead_of(&["sampling.steps"]);
        steps: u64 =
            ("the number of steps of all epochs, a whole number", "3000")
                .flag("steps", "T")
                .or("epochs * ceil(records / batch), for balanced sampling times per-record")
                .instead_of(&["sampling.epochs"]);
    }
}
