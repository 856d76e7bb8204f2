//! Starts runs and takes them up again.

use std::ffi::OsString;
use std::io::Write;

use dapple_plan::PlanSpec;
use dapple_plan::number;
use serde::Deserialize;

use super::process::RunProcess;
use super::{RunDesk, RunState};
use crate::asked::{Asked, Explorer};
use crate::error::ServeError;

/// A plan to train, and what its user agreed to spend.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StartOrder {
    #[serde(default)]
    asked: Asked,
    confirmed: SpendingConsent,
}

/// The epsilon that a user was shown and agreed to spend.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SpendingConsent {
    epsilon: String,
}

impl SpendingConsent {
    /// Refuses another epsilon than the one that was agreed to.
    fn check(&self, epsilon: &str) -> Result<(), ServeError> {
        match self.epsilon == epsilon {
            true => Ok(()),
            false => Err(ServeError::refused(
                format!("this would spend an epsilon of {epsilon}, and {:?} was agreed to", self.epsilon),
                Some("look at the price again, and confirm it"),
            )),
        }
    }
}

impl RunDesk {
    /// Starts a run by the plan of a question.
    ///
    /// # Guarantee
    /// The run reads the data, weights and masks of the plan that the server was given and no others, is private, and costs at most what was
    /// confirmed: `dapple train` prices the same plan once more and counts every step.
    pub(crate) fn start(&self, explorer: &Explorer, starting: &StartOrder) -> Result<RunState, ServeError> {
        let Some(given) = &self.given.plan else {
            let hint = Some("start `dapple serve` with a plan that has sections data, model and optimiser");
            return Err(ServeError::refused("the server was given no plan to train".to_owned(), hint));
        };
        let written = explorer.written(&starting.asked)?;
        let spec = with_files_of(given, explorer.first(), written.clone())?;
        let found = explorer.settled(written)?;
        let epsilon = found.price()?.epsilon.upper;
        starting.confirmed.check(&number::up(epsilon, 4))?;
        let root = self.folders.root();
        std::fs::create_dir_all(root).map_err(|source| ServeError::Folder { source })?;
        let mut processes = self.processes();
        let taken =
            |name: &String| processes.contains_key(name) || root.join(name).symlink_metadata().is_ok();
        let names = (1u32..).map(|number| format!("{}-{number}", self.given.name));
        let name = names.into_iter().find(|name| !taken(name)).ok_or(ServeError::NoRun)?;
        let launch = |source| ServeError::Launch { source };
        let mut plan = tempfile::Builder::new().suffix(".toml").tempfile().map_err(launch)?;
        plan.write_all(spec.to_toml().as_bytes()).and_then(|()| plan.flush()).map_err(launch)?;
        let mut arguments: Vec<OsString> =
            vec!["train".into(), plan.path().into(), "--out".into(), root.join(&name).into()];
        arguments.extend(self.given.arguments.iter().cloned());
        let process = RunProcess::start(&self.given.program, arguments, Some(plan))?;
        processes.insert(name.clone(), process);
        self.folders.show(&name);
        drop(processes);
        self.state(&name)
    }

    /// Takes up a run that was stopped or killed.
    pub(crate) fn resume(&self, name: &str, confirmed: &SpendingConsent) -> Result<RunState, ServeError> {
        let folder = self.folders.folder(name)?;
        let state = self.state(name)?;
        if !state.is_open() {
            return Err(ServeError::refused(format!("{name} is running or finished"), None));
        }
        let planned =
            dapple_train::certify(&folder)?.planned.map(|planned| number::up(planned.epsilon.upper, 4));
        confirmed.check(planned.as_deref().unwrap_or("none"))?;
        let mut processes = self.processes();
        if processes.get_mut(name).is_some_and(RunProcess::is_alive) {
            return Err(ServeError::refused(format!("{name} is running"), None));
        }
        let arguments: [OsString; 2] = ["resume".into(), folder.into()];
        processes.insert(name.to_owned(), RunProcess::start(&self.given.program, arguments, None)?);
        drop(processes);
        self.state(name)
    }
}

/// The plan with the files of the given one, whose paths are absolute. `first` is the given plan as the page shows it.
///
/// Whoever edits a plan in a browser may change what it costs and how well it learns, but not what it reads, where it computes, or whether it
/// is private.
fn with_files_of(given: &PlanSpec, first: &PlanSpec, mut spec: PlanSpec) -> Result<PlanSpec, ServeError> {
    let fixed = |key| Err(ServeError::Fixed { key });
    if spec.data != first.data {
        return fixed("data");
    }
    if spec.performance != first.performance {
        return fixed("performance");
    }
    if spec.train.seed != first.train.seed {
        return fixed("train.seed");
    }
    if spec.train.private == Some(false) {
        return fixed("train.private");
    }
    let files = |spec: &PlanSpec| {
        let mut spec = spec.clone();
        let mut files = Vec::new();
        spec.each_file(|key, path| files.push((key.path, path.clone())));
        files
    };
    let (own, shown, absolute) = (files(&spec), files(first), files(given));
    if let Some((key, _)) = own.iter().find(|named| !shown.contains(named)) {
        return fixed(key);
    }
    if let Some((key, _)) = shown.iter().find(|named| !own.contains(named)) {
        return fixed(key);
    }
    spec.each_file(|key, path| {
        if let Some((_, place)) = absolute.iter().find(|(known, _)| *known == key.path) {
            path.clone_from(place);
        }
    });
    Ok(spec)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    const PLAN: &str = "[privacy]\nepsilon = 1.0\ndelta = 1e-5\n[data]\nformat = 'image-folder'\ntrain = 'train'\n\
        [model]\nname = 'resnet-18'\nweights = 'weights.safetensors'\n[optimiser]\nlearning_rate = 1.0\n";

    fn absolute(text: &str) -> PlanSpec {
        let mut spec = PlanSpec::from_toml(text).unwrap();
        spec.each_file(|_, path| *path = format!("/given/{path}"));
        spec
    }

    #[test]
    fn a_plan_from_the_browser_reads_what_the_given_one_reads() {
        let (first, given) = (PlanSpec::from_toml(PLAN).unwrap(), absolute(PLAN));
        let changed = |key: &str, value: &str| {
            let mut spec = first.clone();
            spec.set(key, value).unwrap();
            with_files_of(&given, &first, spec)
        };
        let spec = changed("privacy.epsilon", "2").unwrap();
        assert_eq!(spec.data.train.as_deref(), Some("/given/train"));
        assert_eq!(spec.model.weights.as_deref(), Some("/given/weights.safetensors"));
        assert_eq!(spec.privacy.epsilon, Some(2.0));
        for (key, value) in [
            ("data.train", "/etc"),
            ("data.test", "/etc"),
            ("data.format", "idx"),
            ("model.weights", "/etc/passwd"),
            ("region.mask", "/etc/mask.png"),
            ("mix.pool", "/etc"),
            ("train.seed", "1"),
            ("train.private", "false"),
            ("performance.threads", "1"),
        ] {
            assert!(matches!(changed(key, value), Err(ServeError::Fixed { .. })), "{key}");
        }
        let mut without = first.clone();
        without.model.weights = None;
        assert!(matches!(with_files_of(&given, &first, without), Err(ServeError::Fixed { .. })));
    }
}
