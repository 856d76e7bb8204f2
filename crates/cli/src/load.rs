//! Reads a plan from files and flags.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use dapple_plan::{Mask, Plan, PlanSpec};
use dapple_train::data::{DataLimits, formats};

use crate::args::Common;
use crate::failure::Failure;

/// The most bytes of a plan. A plan is a page of text, so a longer file was given by mistake.
const MAX_PLAN_BYTES: u64 = 1 << 20;

/// An unchecked plan with the masks it names.
#[derive(Debug)]
pub(crate) struct PricingRequest {
    pub(crate) spec: PlanSpec,
    pub(crate) masks: Vec<Mask>,
}

impl PricingRequest {
    /// Reads the file, lays the flags over it and the settings over both, and reads the masks.
    pub(crate) fn load(common: &Common) -> Result<Self, Failure> {
        let Given { spec, mask_base } = given(common)?;
        let masks = masks(&spec, &mask_base)?;
        Ok(Self { spec, masks })
    }

    pub(crate) fn plan(&self) -> Result<Plan, Failure> {
        Ok(Plan::check_with_masks(&self.spec, &self.masks)?)
    }
}

/// Reads a plan to train. Its paths are relative to the folder of its file.
pub(crate) fn training(common: &Common) -> Result<dapple_train::Request, Failure> {
    let Given { mut spec, mask_base } = given(common)?;
    let masks = masks(&spec, &mask_base)?;
    if let Some(name) = &mut spec.region.mask {
        let joined = mask_base.join(&*name);
        *name = std::path::absolute(&joined).unwrap_or(joined).display().to_string();
    }
    Ok(dapple_train::Request { spec, base: folder_of(common), masks })
}

/// The folder of the plan's file.
fn folder_of(common: &Common) -> PathBuf {
    common.plan().and_then(Path::parent).unwrap_or(Path::new("")).to_owned()
}

/// The plan that files and flags give together.
struct Given {
    spec: PlanSpec,
    /// The folder that the mask's path is relative to: the plan's folder if the plan names the mask, and otherwise where the command was
    /// typed.
    mask_base: PathBuf,
}

fn given(common: &Common) -> Result<Given, Failure> {
    let mut spec = match common.plan() {
        Some(path) => read_plan(path)?,
        None => PlanSpec::default(),
    };
    let mut flags = PlanSpec::default();
    for (key, value) in &common.flags.0 {
        flags.set(key, value)?;
    }
    spec = spec.merge(&flags);
    let mut settings = PlanSpec::default();
    for setting in &common.set {
        let (key, value) = setting.split_once('=').ok_or_else(|| {
            Failure::request(
                format!("--set {setting} has no `=`"),
                "write --set path.to.key=value, e.g. --set sampling.batch=100",
            )
        })?;
        settings.set(key.trim(), value.trim())?;
    }
    let typed = flags.region.mask.is_some() || settings.region.mask.is_some();
    let mask_base = if typed { PathBuf::new() } else { folder_of(common) };
    Ok(Given { spec: spec.merge(&settings), mask_base })
}

pub(crate) fn read_plan(path: &Path) -> Result<PlanSpec, Failure> {
    let unreadable = |error: std::io::Error| {
        Failure::request(
            format!("cannot read the plan {}: {error}", path.display()),
            "give the name of a TOML file, or describe the plan by flags",
        )
    };
    let mut text = String::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(MAX_PLAN_BYTES + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > MAX_PLAN_BYTES {
        return Err(Failure::request(
            format!("the plan {} is larger than {MAX_PLAN_BYTES} bytes", path.display()),
            "a plan is a short TOML file; is this the right one?",
        ));
    }
    Ok(PlanSpec::from_toml(&text).map_err(|error| error.in_file(&path.display().to_string()))?)
}

/// Reads the masks that a plan names. Their paths are relative to `base`.
pub(crate) fn masks(spec: &PlanSpec, base: &Path) -> Result<Vec<Mask>, Failure> {
    let limits = DataLimits::of(&spec.data);
    let read = |name: &String| formats::read_mask(&base.join(name), &limits);
    Ok(spec.region.mask.iter().map(read).collect::<Result<_, _>>()?)
}
