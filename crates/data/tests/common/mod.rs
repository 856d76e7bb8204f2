//! Files and plans that several tests use.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::fs;
use std::path::{Path, PathBuf};

use dapple_data::{DataError, DataPlan, Opened, ViewPlan};
use dapple_plan::{Plan, PlanSpec};

/// An IDX file of unsigned bytes.
pub(crate) fn idx_bytes(shape: &[u32], data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, 8, shape.len() as u8];
    shape.iter().for_each(|side| bytes.extend(side.to_be_bytes()));
    bytes.extend(data);
    bytes
}

/// A `.npy` file of version 1, padded as numpy does.
pub(crate) fn npy_bytes(descr: &str, shape: &[usize], data: &[u8]) -> Vec<u8> {
    let shape: String = shape.iter().map(|side| format!("{side}, ")).collect();
    let mut text =
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({}), }}", shape.trim_end());
    while (10 + text.len() + 1) % 64 != 0 {
        text.push(' ');
    }
    text.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes.extend(data);
    bytes
}

pub(crate) fn write(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, bytes).unwrap();
    path
}

/// A checked plan from TOML.
pub(crate) fn plan(text: &str) -> Plan {
    Plan::check(&spec(text)).unwrap()
}

pub(crate) fn spec(text: &str) -> PlanSpec {
    PlanSpec::from_toml(&format!("[privacy]\ndelta = 1e-5\nnoise_multiplier = 1.0\n{text}")).unwrap()
}

/// What the model sees behind the crop, from TOML.
pub(crate) fn view_plan(text: &str) -> ViewPlan {
    ViewPlan::check(&spec(text).data).unwrap()
}

/// Opens the data of a plan that is not checked yet.
pub(crate) fn open(spec: &PlanSpec, base: &Path) -> Result<Opened, DataError> {
    dapple_data::open(&DataPlan::check(spec)?, base)
}

/// The message of the error, which must name the file and come with a hint.
pub(crate) fn message<T>(result: Result<T, DataError>, file: &str) -> String {
    let error = result.err().unwrap();
    let text = error.to_string();
    assert!(text.contains(file) && !text.contains('\n'), "{text}");
    assert!(error.hint().is_some(), "{text}");
    text
}
