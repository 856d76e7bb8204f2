//! Reads a plan from a file or a run folder, and from flags.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use dapple_plan::{Mask, Plan, PlanSpec, SolvedUnknown};
use dapple_train::data::{DataError, DataLimits, fill_in_from, formats, left_to_data};

use crate::args::Common;
use crate::failure::Failure;

/// The most bytes of a plan. A plan is a page of text, so a longer file was given by mistake.
const MAX_PLAN_BYTES: u64 = 1 << 20;

/// A plan to price, with the masks it names and with what it leaves to its data filled in.
#[derive(Debug)]
pub(crate) struct PricingRequest {
    pub(crate) spec: PlanSpec,
    pub(crate) masks: Vec<Mask>,
}

impl PricingRequest {
    /// Reads the plan as [`training`] does, and looks at the data if the plan leaves the number of records or the size of images to it. A
    /// plan that trains without privacy has no price and is refused.
    pub(crate) fn load(common: &Common) -> Result<Self, Failure> {
        Self::load_from(common, common.plan())
    }

    /// As [`PricingRequest::load`], with the plan of another file or run than the one that was given.
    pub(crate) fn load_from(common: &Common, plan: Option<&Path>) -> Result<Self, Failure> {
        match Self::spatial_from(common, plan)? {
            request if request.is_without_privacy() => Err(Failure::request(
                "the plan trains without privacy (train.private = false), so there is nothing to price",
                "leave train.private out of the plan, or give --set train.private=true",
            )),
            request => Ok(request),
        }
    }

    /// As [`PricingRequest::load`], also for plans that train without privacy.
    pub(crate) fn spatial(common: &Common) -> Result<Self, Failure> {
        Self::spatial_from(common, common.plan())
    }

    fn spatial_from(common: &Common, plan: Option<&Path>) -> Result<Self, Failure> {
        let dapple_train::Request { mut spec, base, masks } = training_from(common, plan)?;
        if spec.train.private != Some(false) {
            fill_in_from(&mut spec, &base).map_err(|error| not_here(&spec, error))?;
        }
        Ok(Self { spec, masks })
    }

    /// Whether the plan trains without clipping and noise.
    pub(crate) fn is_without_privacy(&self) -> bool {
        self.spec.train.private == Some(false)
    }

    /// Solves for the noise or the steps that the plan leaves to its target, as training would, and tells what was solved for.
    pub(crate) fn settle(&mut self) -> Result<Option<SolvedUnknown>, Failure> {
        Ok(self.spec.settle(&self.masks, dapple_plan::BracketPrecision::default())?)
    }

    pub(crate) fn plan(&self) -> Result<Plan, Failure> {
        Ok(Plan::check_with_masks(&self.spec, &self.masks)?)
    }
}

/// The failure of a plan that leaves something to data that cannot be looked at.
fn not_here(spec: &PlanSpec, error: DataError) -> Failure {
    match &error {
        DataError::Absent { key: "data.train", .. } => {
            let left = left_to_data(spec);
            let flags = left.iter().map(|key| match *key {
                "pipeline.image" => "--image WxH",
                "pipeline.frames" => "--set pipeline.frames=N",
                _ => "--records N",
            });
            let flags = flags.collect::<Vec<_>>().join(" ");
            Failure::request(
                format!("the plan leaves {} to its data, which is not here ({error})", left.join(" and ")),
                format!("give {flags}, or put the data where the plan says"),
            )
        }
        _ => error.into(),
    }
}

/// Reads a plan to train. Paths in its file are relative to the folder of the file, and paths that were typed to where they were typed.
pub(crate) fn training(common: &Common) -> Result<dapple_train::Request, Failure> {
    training_from(common, common.plan())
}

/// As [`training`], with the plan of another file or run than the one that was given.
pub(crate) fn training_from(common: &Common, plan: Option<&Path>) -> Result<dapple_train::Request, Failure> {
    let mut request = match plan {
        // A run folder says itself what was trained, and its paths are absolute.
        Some(path) if path.is_dir() => dapple_train::request_of_run(path)?,
        Some(path) => {
            let base = path.parent().unwrap_or(Path::new("")).to_owned();
            let spec = read_plan(path)?;
            dapple_train::Request { masks: masks(&spec, &base)?, spec, base }
        }
        None => dapple_train::Request::of(PlanSpec::default()),
    };
    let typed = typed(common, &request.base)?;
    if typed.region.mask.is_some() {
        request.masks = masks(&typed, &request.base)?;
    }
    request.spec = request.spec.merge(&typed);
    if request.spec.region.mask.is_none() {
        request.masks.clear();
    }
    let base = &request.base;
    if let Some(name) = &mut request.spec.region.mask {
        let joined = base.join(&*name);
        *name = std::path::absolute(&joined).unwrap_or(joined).display().to_string();
    }
    Ok(request)
}

/// What flags and settings say, settings over flags. Their paths are made to lead from `base` to where they were meant.
fn typed(common: &Common, base: &Path) -> Result<PlanSpec, Failure> {
    let mut flags = PlanSpec::default();
    for (key, value) in &common.flags.0 {
        flags.set(key, value)?;
    }
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
    let mut typed = flags.merge(&settings);
    if !base.as_os_str().is_empty() {
        typed.each_file(|_, path| {
            let absolute = std::path::absolute(&*path).unwrap_or_else(|_| PathBuf::from(&*path));
            *path = absolute.display().to_string();
        });
    }
    Ok(typed)
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
