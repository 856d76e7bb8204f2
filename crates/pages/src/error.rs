//! Why there is no page.

use dapple_plan::PlanError;
use dapple_report::ReportError;
use dapple_train::TrainError;
use dapple_train::data::DataError;

/// Why a page could not be made.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// A folder that holds no run, or one that cannot be trusted.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// A plan that makes no sense.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// An image that cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A figure that cannot be drawn.
    #[error(transparent)]
    Report(#[from] ReportError),
}
