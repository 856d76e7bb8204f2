//! Images of the test set, which a page may show.

use std::path::Path;
use std::sync::Arc;

use dapple_plan::DataPlan;
use dapple_train::data::{Dataset, open};

/// The images of a test set that a page may show.
pub(crate) enum TestImages {
    /// They are public, because they have files of their own.
    Public(Arc<dyn Dataset>),
    /// They are split off the private records. Nothing protects them, and a page is made to be passed on.
    SplitOff,
    /// The data are not on this machine.
    Absent,
    /// The plan has none.
    None,
}

impl TestImages {
    /// Opens the test set of a run's plan, whose paths are absolute.
    pub(crate) fn of(data: &DataPlan) -> Self {
        if data.origin.splits_records_off() {
            return Self::SplitOff;
        }
        match open(data, Path::new("")).map(|opened| opened.test) {
            Ok(Some(test)) => Self::Public(test),
            Ok(None) => Self::None,
            Err(_) => Self::Absent,
        }
    }

    /// What to say in the place of pictures.
    pub(crate) fn absence(&self) -> Option<&'static str> {
        match self {
            Self::SplitOff => Some(
                "The model was evaluated on records split off the private ones. They are not shown here.",
            ),
            Self::Absent => Some("The test set is not at hand, so no picture of it is shown."),
            Self::Public(_) | Self::None => None,
        }
    }
}

/// Records from the first to the last, evenly spread.
pub(crate) fn spread(records: usize, most: usize) -> Vec<usize> {
    let count = records.min(most);
    (0..count).map(|index| index * (records - 1) / (count - 1).max(1)).collect()
}

#[cfg(test)]
mod tests {
    use super::spread;

    #[test]
    fn records_are_spread_over_the_set() {
        assert_eq!(spread(0, 4), Vec::<usize>::new());
        assert_eq!(spread(1, 4), [0]);
        assert_eq!(spread(3, 4), [0, 1, 2]);
        assert_eq!(spread(101, 4), [0, 33, 66, 100]);
    }
}
