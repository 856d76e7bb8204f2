//! The Python module `dapple._dapple`: plans, certificates and privacy-loss distributions for Python.
//!
//! The public package is `dapple` (the folder `python/dapple`), which gathers what is here. This crate only translates: keyword arguments
//! are the keys of a plan, answers are those of `dapple-plan`, and errors carry the same words and hints. Calls that may take long run on
//! a thread of their own, without the interpreter's lock, so that other Python threads go on and an interrupt is noticed.

// Input arrives here, and it may be anything.
#![warn(clippy::expect_used)]

mod calibration;
mod certificate;
mod errors;
mod event;
mod federated;
mod html;
mod inclusion;
mod keywords;
mod mask;
mod plan;
mod pld;
mod predictor;
mod rdp;
mod request;
mod run_certificate;
mod sampler;
mod sweep;
mod table;
mod train;
mod values;
mod verbs;
mod words;
mod worker;

/// The compiled part of the package `dapple`; import that instead.
#[pyo3::pymodule]
mod _dapple {
    #[pymodule_export]
    use crate::calibration::Calibration;
    #[pymodule_export]
    use crate::certificate::PyCertificate;
    #[pymodule_export]
    use crate::event::TrainingEvent;
    #[pymodule_export]
    use crate::federated::{PyFederatedCertificate, PyFederatedRun, PyLocalTrainer};
    #[pymodule_export]
    use crate::inclusion::{Inclusion, inclusion, inclusion_probability};
    #[pymodule_export]
    use crate::keywords::keywords;
    #[pymodule_export]
    use crate::plan::PyPlan;
    #[pymodule_export]
    use crate::pld::PyPld;
    #[pymodule_export]
    use crate::predictor::PyPredictor;
    #[pymodule_export]
    use crate::rdp::PyRdp;
    #[pymodule_export]
    use crate::run_certificate::PyRunCertificate;
    #[pymodule_export]
    use crate::sampler::Sampler;
    #[pymodule_export]
    use crate::sweep::sweep;
    #[pymodule_export]
    use crate::train::{certify, plan_of_run, resume, train};
    #[pymodule_export]
    use crate::verbs::{account, calibrate, profile};

    /// The version of the package.
    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
