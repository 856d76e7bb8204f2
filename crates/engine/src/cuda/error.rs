//! What can be wrong with a GPU, its libraries, or what it is asked to do.

use crate::error::EngineError;

/// A GPU that cannot be used, or a step that failed on it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CudaError {
    /// The batch, the parameters or the result cannot be used on any device.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A library that the executor loads when it starts was not found.
    #[error("{library} was not found")]
    Library {
        /// The library.
        library: &'static str,
    },
    /// The driver is too old for the libraries.
    #[error(
        "the driver supports CUDA {found_major}.{found_minor}; CUDA {needed_major}.{needed_minor} is needed"
    )]
    Driver {
        /// Version the driver supports.
        found_major: i32,
        /// Version the driver supports.
        found_minor: i32,
        /// Version that is needed.
        needed_major: i32,
        /// Version that is needed.
        needed_minor: i32,
    },
    /// There is no such device.
    #[error("there is no CUDA device {ordinal}: {count} found")]
    NoDevice {
        /// The device asked for.
        ordinal: usize,
        /// The number of devices there are.
        count: usize,
    },
    /// The device lacks instructions that the kernels use.
    #[error("{device} has compute capability {major}.{minor}; 8.0 is needed")]
    Capability {
        /// Name of the device.
        device: String,
        /// Its capability.
        major: i32,
        /// Its capability.
        minor: i32,
    },
    /// cuDNN is too old.
    #[error("cuDNN {found} was found; cuDNN 9 is needed")]
    Cudnn {
        /// Its version number.
        found: usize,
    },
    /// The device has too little free memory.
    #[error("out of memory on the GPU: {wanted_mb} MB wanted, {free_mb} MB free")]
    OutOfMemory {
        /// Megabytes asked for.
        wanted_mb: usize,
        /// Megabytes that were free.
        free_mb: usize,
    },
    /// Noise for which it was not proven that rounding to the lattice is right.
    #[error(
        "noise of {deviation} steps of a lattice of {lattice}: the lattice must be a power of two and the deviation in (0, 2048)"
    )]
    Noise {
        /// The step of the lattice.
        lattice: f64,
        /// Standard deviation in steps.
        deviation: f64,
    },
    /// A value that is infinite or not a number.
    #[error("{what} holds a value that is not finite")]
    NotFinite {
        /// What holds it.
        what: &'static str,
    },
    /// A part of the model that the kernels have no room for.
    #[error("{node} ({op}) cannot run on a GPU")]
    Unsupported {
        /// Name of the node.
        node: String,
        /// What it is.
        op: &'static str,
    },
    /// A call that failed.
    #[error("{call}: {reason}")]
    Call {
        /// What was called.
        call: &'static str,
        /// What it said.
        reason: String,
    },
}

impl CudaError {
    /// What to do about it, where that is known.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Engine(error) => error.hint(),
            Self::Library { library: "the CUDA driver" } => {
                Some("install NVIDIA's driver, or train on the CPU: --device cpu")
            }
            Self::Library { library: "cuDNN" } => Some(
                "install cuDNN 9 (for example the Python package nvidia-cudnn-cu13) and put its folder in LD_LIBRARY_PATH",
            ),
            Self::Library { library: "NCCL" } => Some(
                "install NCCL 2 (for example the Python package nvidia-nccl-cu13) and put its folder in LD_LIBRARY_PATH",
            ),
            Self::Library { .. } => {
                Some("install the CUDA toolkit and put its libraries' folder in LD_LIBRARY_PATH")
            }
            Self::Driver { .. } => Some("update NVIDIA's driver"),
            Self::NoDevice { .. } => Some("nvidia-smi lists the devices; CUDA_VISIBLE_DEVICES may hide them"),
            Self::Capability { .. } => Some("use an Ampere card or a newer one, or the CPU: --device cpu"),
            Self::Cudnn { .. } => Some("put the folder of cuDNN 9 first in LD_LIBRARY_PATH"),
            Self::OutOfMemory { .. } => Some(
                "lower the microbatch (it changes no result), or stop what else uses the card: nvidia-smi shows it",
            ),
            Self::Unsupported { .. } => Some("train on the CPU: --device cpu"),
            Self::NotFinite { .. } => Some("training has diverged: lower the learning rate"),
            Self::Noise { .. } | Self::Call { .. } => None,
        }
    }
}

/// Turns a library's error into one that names the call.
pub(crate) fn call<T, E: std::fmt::Debug>(call: &'static str, result: Result<T, E>) -> Result<T, CudaError> {
    result.map_err(|error| CudaError::Call { call, reason: format!("{error:?}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_user_meets_has_a_way_out() {
        let libraries = ["the CUDA driver", "NVRTC", "cuBLAS", "cuDNN", "NCCL"]
            .map(|library| CudaError::Library { library });
        let others = [
            CudaError::Driver { found_major: 11, found_minor: 4, needed_major: 12, needed_minor: 0 },
            CudaError::NoDevice { ordinal: 1, count: 1 },
            CudaError::Capability { device: "an old card".into(), major: 7, minor: 5 },
            CudaError::Cudnn { found: 8907 },
            CudaError::OutOfMemory { wanted_mb: 9000, free_mb: 80 },
            EngineError::Parameters.into(),
        ];
        for error in libraries.iter().chain(&others) {
            assert!(error.hint().is_some(), "{error}");
            assert!(!error.to_string().contains('\n'), "{error}");
        }
    }
}
