//! Records in shards: a list says everything about them that a run needs before it reads one, so that no machine needs them all.

mod arrays;
mod clips;
mod list;
mod pairs;
mod pictures;
#[cfg(test)]
mod tests;
mod write;

pub use arrays::ShardedArrays;
pub use clips::ShardedClips;
pub use pairs::ShardedPairs;
pub use pictures::ShardedImages;
pub use write::{ShardCut, cut_arrays, list_clip_shards, list_pair_shards, list_shards};
