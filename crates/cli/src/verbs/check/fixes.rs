//! What is wrong with data, and the lines of a plan that mend it.

use dapple_plan::PlanSpec;
use dapple_plan::spec::Pixels;
use dapple_train::data::{DataError, Inspection};

use super::InspectedParts;
use crate::failure::Failure;

/// The most files that are named of one kind.
const NAMED: usize = 5;

/// One thing that is wrong, what to do about it, and the lines of a plan that do it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fix {
    pub(super) problem: String,
    pub(super) hint: String,
    /// Lines of TOML, if a plan can mend it.
    pub(super) toml: Option<String>,
}

/// Everything that is wrong.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Fixes(pub(super) Vec<Fix>);

impl Fixes {
    /// What is wrong with records that a plan is to train on.
    pub(super) fn of(found: &InspectedParts, spec: &PlanSpec) -> Self {
        let mut fixes = Self::default();
        for (key, part) in [("data.train", Some(&found.train)), ("data.test", found.test.as_ref())] {
            if let Some(part) = part {
                fixes.unreadable(key, part);
                fixes.strange(key, part, spec);
            }
        }
        fixes.sizes(&found.train, spec);
        fixes.counts(&found.train, spec);
        fixes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first problem with its hint.
    pub(super) fn first(&self) -> Option<(&str, &str)> {
        self.0.first().map(|fix| (fix.problem.as_str(), fix.hint.as_str()))
    }

    /// Everything that is wrong, in paragraphs.
    pub(super) fn text(&self) -> String {
        let one = |fix: &Fix| {
            let toml = fix.toml.iter().flat_map(|toml| toml.lines());
            let toml: String = toml.map(|line| format!("           {line}\n")).collect();
            format!("wrong  {}\n       {}\n{toml}", fix.problem, fix.hint)
        };
        self.0.iter().map(one).collect()
    }

    /// A data set that could not be opened, with the line that mends it where there is one.
    pub(super) fn of_opening(error: DataError) -> Failure {
        let line = match &error {
            DataError::Classes { found, .. } => Some(format!("data.classes = {found}")),
            _ => None,
        };
        match (line, Failure::from(error)) {
            (Some(line), Failure::Request { message, hint }) => {
                Failure::request(message, format!("{hint}: `{line}` in the plan"))
            }
            (_, failure) => failure,
        }
    }

    fn add(&mut self, problem: String, hint: impl Into<String>, toml: Option<String>) {
        self.0.push(Fix { problem, hint: hint.into(), toml });
    }

    fn unreadable(&mut self, key: &str, part: &Inspection) {
        let faults = &part.faults;
        if faults.is_empty() {
            return;
        }
        let named: Vec<&str> = faults.iter().take(NAMED).map(|(_, problem)| problem.as_str()).collect();
        let more = match faults.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        let count = faults.len();
        let files = if count == 1 { "1 record" } else { &format!("{count} records") };
        self.add(
            format!("`{key}`: {files} of {} cannot be used: {}{more}", part.records, named.join("; ")),
            "fetch these files again, or take them out of the folder",
            None,
        );
    }

    fn strange(&mut self, key: &str, part: &Inspection, spec: &PlanSpec) {
        if part.strange_labels.is_empty() {
            return;
        }
        let shown: Vec<String> =
            part.strange_labels.iter().map(|(value, maps)| format!("{value} (in {maps} maps)")).collect();
        let numbers: Option<Vec<u32>> = part.strange_labels.keys().map(|value| value.parse().ok()).collect();
        let toml = numbers.map(|mut numbers| {
            numbers.extend(spec.data.ignore.iter().flatten());
            numbers.sort_unstable();
            numbers.dedup();
            format!("[data]\nignore = {numbers:?}")
        });
        self.add(
            format!(
                "`{key}`: labels that are neither a class nor ignored: {}",
                shown.iter().take(2 * NAMED).cloned().collect::<Vec<_>>().join(", ")
            ),
            "if these pixels have no class, ignore them; otherwise raise data.classes or name them in data.class_ids",
            toml,
        );
    }

    fn sizes(&mut self, part: &Inspection, spec: &PlanSpec) {
        let (Some(least), Some(most)) = bounds(part) else { return };
        let region = spec.region.patch.is_some() || spec.region.circle.is_some();
        let toml = |least: Pixels, most: Pixels| format!("[pipeline]\nsizes = \"{least}:{most}\"");
        if let Some(range) = spec.pipeline.sizes {
            let outside = |size: &dapple_plan::spec::Pixels| {
                size.x < range.least.x
                    || size.y < range.least.y
                    || size.x > range.most.x
                    || size.y > range.most.y
            };
            if outside(&least) || outside(&most) {
                let wide = Pixels { x: least.x.min(range.least.x), y: least.y.min(range.least.y) };
                let high = Pixels { x: most.x.max(range.most.x), y: most.y.max(range.most.y) };
                self.add(
                    format!("images are from {least} to {most}, but pipeline.sizes allows {range}"),
                    "declare a wider range, or bring the images into it with `dapple prepare`",
                    Some(toml(wide, high)),
                );
            }
        } else if least != most && spec.pipeline.image.is_some() {
            self.add(
                format!("images have {} sizes, but pipeline.image gives one", part.sizes.len()),
                "declare a range of sizes, or bring all images to one with `dapple prepare`",
                Some(format!("{}   # in the place of `image`", toml(least, most))),
            );
        } else if least != most && region && cropped(spec) {
            self.add(
                format!(
                    "images have {} sizes from {least} to {most}, and the price of a crop needs their range",
                    part.sizes.len()
                ),
                "declare the range (it is taken as public), or bring all images to one size with `dapple prepare`",
                Some(toml(least, most)),
            );
        } else if let Some(image) = spec.pipeline.image.filter(|image| least == most && *image != least) {
            self.add(
                format!("images are {least}, but pipeline.image says {image}"),
                "correct it, or leave it out",
                Some(format!("[pipeline]\nimage = [{}, {}]", least.x, least.y)),
            );
        }
    }

    fn counts(&mut self, part: &Inspection, spec: &PlanSpec) {
        let records = part.records as u64;
        if let Some(said) = spec.sampling.records.filter(|said| *said != records) {
            self.add(
                format!("there are {records} records, but sampling.records says {said}"),
                "correct it, or leave it out to have them counted",
                Some(format!("[sampling]\nrecords = {records}")),
            );
        }
        if let Some(batch) = spec.sampling.batch.filter(|batch| *batch > records) {
            self.add(
                format!("a batch of {batch} cannot be drawn from {records} records"),
                "a tenth of the records is a good beginning",
                Some(format!("[sampling]\nbatch = {}", (records / 10).max(1))),
            );
        }
    }
}

fn cropped(spec: &PlanSpec) -> bool {
    let pipeline = &spec.pipeline;
    pipeline.crop.is_some() || pipeline.crop_scale.is_some() || pipeline.crop_ratio.is_some()
}

/// The least width and height of all images, and the largest.
pub(super) fn bounds(part: &Inspection) -> (Option<Pixels>, Option<Pixels>) {
    let sides = || part.sizes.iter().map(|(size, _)| (size.width(), size.height()));
    let all = |pick: fn(u32, u32) -> u32| sides().reduce(|a, b| (pick(a.0, b.0), pick(a.1, b.1)));
    let pixels = |(x, y): (u32, u32)| Pixels { x, y };
    (all(u32::min).map(pixels), all(u32::max).map(pixels))
}
