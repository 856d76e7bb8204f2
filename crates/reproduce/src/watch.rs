//! How far a computation has come.

use dapple_train::Observer;

/// Is told how far a reproduction has come. A program may show it or not.
pub trait Watch: Sync {
    /// So many questions are going to be answered.
    fn begin(&self, questions: usize);

    /// One more question was answered.
    fn answered(&self);

    /// All questions were answered.
    fn end(&self);

    /// Watches a training run, and may end it.
    fn run(&self, name: &str) -> Box<dyn Observer + '_>;
}
