//! A node of the graph, as an operation sees it that writes itself.

/// A node that is written now. Shapes are those of one sample, so that axis `i` of a shape is axis `i + 1` of the file.
#[derive(Debug)]
pub(crate) struct WrittenNode<'n> {
    /// The name of the node.
    pub(crate) name: &'n str,
    /// The names of the values that it reads.
    pub(crate) inputs: Vec<&'n str>,
    /// Their shapes.
    pub(crate) shapes: Vec<&'n [usize]>,
    /// The shape of its output.
    pub(crate) shape: &'n [usize],
}

impl WrittenNode<'_> {
    /// A name for a part of the node.
    pub(crate) fn part(&self, part: &str) -> String {
        format!("{}/{part}", self.name)
    }
}

/// The axis of the file for an axis of a sample.
pub(crate) fn axis(axis: usize) -> i64 {
    axis as i64 + 1
}
