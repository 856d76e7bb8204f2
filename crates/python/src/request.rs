//! Turns the arguments of a Python call into an unchecked plan.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dapple_data::{DataError, fill_in_from, left_to_data};
use dapple_geometry::Mask;
use dapple_plan::spec::PhaseSpec;
use dapple_plan::spec::keys::{self, Key};
use dapple_plan::{BracketPrecision, Plan, PlanError, PlanSpec};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping, PyString};
use toml::{Table, Value};

use crate::errors::Raise;
use crate::plan::PyPlan;
use crate::{keywords, mask, values, worker};

/// An unchecked plan with its masks, and the checked plan if it is known because nothing was changed.
#[derive(Debug, Clone, Default)]
pub(crate) struct PlanRequest {
    pub(crate) spec: PlanSpec,
    pub(crate) masks: Vec<Mask>,
    /// The folder that paths start in.
    pub(crate) base: PathBuf,
    checked: Option<Arc<Plan>>,
}

impl PlanRequest {
    /// Reads the plan that a call starts from, lays the keywords over it, and the single settings over both.
    pub(crate) fn read(
        plan: Option<&Bound<'_, PyAny>>,
        set: Option<&Bound<'_, PyMapping>>,
        values: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let mut request = plan.map_or_else(|| Ok(Self::default()), Self::of)?;
        if let Some(values) = values {
            let mut layer = Layer::default();
            for (name, value) in values {
                let name = name.cast::<PyString>()?.to_str()?;
                let key = keywords::find(name).ok_or_else(|| keywords::unknown(value.py(), name))?;
                layer.put(key, &value)?;
            }
            request.lay(values.py(), layer)?;
        }
        if let Some(set) = set {
            let layer = Layer::of_mapping(set)?;
            request.lay(set.py(), layer)?;
        }
        match plan {
            Some(plan) => request.measured(plan.py()),
            None => Ok(request),
        }
    }

    /// The same plan with what it leaves to its data, if they are there: the number of records, and the size of images.
    pub(crate) fn measured(mut self, py: Python<'_>) -> PyResult<Self> {
        if self.spec.data.format.is_none() || left_to_data(&self.spec).is_empty() {
            return Ok(self);
        }
        let (mut spec, base) = (self.spec.clone(), self.base.clone());
        let filled = worker::run(py, move |_| fill_in_from(&mut spec, &base).map(|()| spec))?;
        match filled {
            Ok(spec) => self.spec = spec,
            // What is missing is said where the plan is checked.
            Err(DataError::Absent { .. }) => {}
            Err(error) => return Err(error.raise(py)),
        }
        Ok(self)
    }

    /// Reads a plan, a mapping, or the path of a TOML file.
    fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(plan) = object.cast::<PyPlan>() {
            return Ok(plan.get().request());
        }
        if object.is_none() {
            return Ok(Self::default());
        }
        if let Ok(mapping) = object.cast::<PyMapping>() {
            let mut request = Self::default();
            request.lay(object.py(), Layer::of_mapping(mapping)?)?;
            return Ok(request);
        }
        match object.extract::<PathBuf>() {
            Ok(path) => Self::from_file(object.py(), &path),
            Err(_) => {
                Err(PyTypeError::new_err("a plan is a dapple.Plan, a mapping, or the path of a TOML file"))
            }
        }
    }

    /// Reads the plan of a file or of a run folder, and looks at its data if it leaves something to them.
    fn from_file(py: Python<'_>, path: &Path) -> PyResult<Self> {
        let path = &if path.is_dir() { path.join("plan.toml") } else { path.to_owned() };
        let text = std::fs::read_to_string(path)?;
        let spec = PlanSpec::from_toml(&text)
            .map_err(|error| error.in_file(&path.display().to_string()).raise(py))?;
        Self::from_spec(py, spec, path.parent().unwrap_or(Path::new("")))
    }

    /// A plan as written, with the masks it names. Their paths are relative to `base`.
    pub(crate) fn from_spec(py: Python<'_>, spec: PlanSpec, base: &Path) -> PyResult<Self> {
        let masks =
            spec.region.mask.iter().map(|name| mask::read(py, &base.join(name))).collect::<PyResult<_>>()?;
        Ok(Self { spec, masks, base: base.to_owned(), checked: None })
    }

    /// A plan with masks that have no file.
    pub(crate) fn with_masks(spec: PlanSpec, masks: Vec<Mask>) -> Self {
        Self { spec, masks, ..Self::default() }
    }

    /// The same request, whose paths start in this folder.
    pub(crate) fn based(self, base: PathBuf) -> Self {
        Self { base, ..self }
    }

    /// The same request, for which the checked plan is known.
    pub(crate) fn known(&self, plan: Arc<Plan>) -> Self {
        Self { checked: Some(plan), ..self.clone() }
    }

    /// Lays values over this plan.
    pub(crate) fn lay(&mut self, py: Python<'_>, layer: Layer) -> PyResult<()> {
        if layer.is_empty() {
            return Ok(());
        }
        let mut spec = layer.spec().map_err(|error| error.raise(py))?;
        if !self.base.as_os_str().is_empty() {
            // What is given here starts in the folder where Python runs. The mask is read at once.
            spec.each_file(|key, path| {
                if key.path != mask::KEY {
                    let full = std::path::absolute(&*path);
                    *path = full.map_or_else(|_| path.clone(), |full| full.display().to_string());
                }
            });
        }
        let masks = match (layer.masks, &spec.region.mask) {
            (Some(masks), _) => Some(masks),
            (None, Some(name)) => Some(vec![mask::read(py, Path::new(name))?]),
            (None, None) => None,
        };
        self.spec = if self.spec == PlanSpec::default() { spec } else { self.spec.merge(&spec) };
        if let Some(masks) = masks {
            self.masks = masks;
        } else if self.spec.region.mask.is_none() {
            self.masks.clear();
        }
        self.checked = None;
        Ok(())
    }

    /// Checks the plan. What it leaves to its epsilon is solved for, as training does.
    pub(crate) fn check(&self) -> Result<Arc<Plan>, PlanError> {
        match &self.checked {
            Some(plan) => Ok(plan.clone()),
            None => {
                let mut spec = self.spec.clone();
                spec.settle(&self.masks, BracketPrecision::default())?;
                Plan::check_with_masks(&spec, &self.masks).map(Arc::new)
            }
        }
    }
}

/// Values that are laid over a plan at once.
#[derive(Debug, Default)]
pub(crate) struct Layer {
    given: Vec<(&'static Key, Value)>,
    phases: Option<Value>,
    masks: Option<Vec<Mask>>,
}

impl Layer {
    /// Reads a mapping of sections with their keys, of dotted keys, or of keywords.
    fn of_mapping(mapping: &Bound<'_, PyMapping>) -> PyResult<Self> {
        let py = mapping.py();
        let mut layer = Self::default();
        for item in mapping.items()? {
            let (name, value): (String, Bound<'_, PyAny>) = item.extract()?;
            match value.cast::<PyMapping>() {
                Ok(section) => {
                    for item in section.items()? {
                        let (own, value): (String, Bound<'_, PyAny>) = item.extract()?;
                        let path = format!("{name}.{own}");
                        let near = || PlanError::UnknownKey { path: path.clone(), near: keys::near(&path) };
                        layer.put(keys::find(&path).ok_or_else(|| near().raise(py))?, &value)?;
                    }
                }
                Err(_) if name == "phases" => layer.phases = values::read(&value),
                Err(_) => layer.put(keywords::resolve(py, &name)?, &value)?,
            }
        }
        Ok(layer)
    }

    /// Adds the value of a key. Python's `None` stands for a value that is not given.
    pub(crate) fn put(&mut self, key: &'static Key, object: &Bound<'_, PyAny>) -> PyResult<()> {
        if object.is_none() {
            return Ok(());
        }
        if key.path == mask::KEY
            && let Some(masks) = mask::from_arrays(object)?
        {
            self.masks = Some(masks);
            self.given.push((key, Value::String(mask::ARRAY.to_owned())));
            return Ok(());
        }
        let value = values::read(object).ok_or_else(|| {
            let message = format!("a Python {} is no value of a plan", object.get_type());
            PlanError::Value { key: key.path.to_owned(), message }.raise(object.py())
        })?;
        self.given.push((key, value));
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.given.is_empty() && self.phases.is_none()
    }

    /// All values as a plan of their own.
    fn spec(&self) -> Result<PlanSpec, PlanError> {
        let mut spec = self.at_once().map_or_else(|| self.one_by_one(), Ok)?;
        if let Some(phases) = &self.phases {
            let read = phases.clone().try_into::<Vec<PhaseSpec>>();
            spec.phases = read.map_err(|error| PlanError::Invalid {
                key: "phases",
                problem: error.message().to_owned(),
                hint: "a phase takes epochs or steps, batch, noise_multiplier, crop, views".to_owned(),
            })?;
        }
        Ok(spec)
    }

    fn at_once(&self) -> Option<PlanSpec> {
        let mut table = Table::new();
        for (key, value) in &self.given {
            let (section, name) = key.path.split_once('.')?;
            let section = table.entry(section).or_insert_with(|| Value::Table(Table::new()));
            section.as_table_mut()?.insert(name.to_owned(), value.clone());
        }
        table.try_into().ok()
    }

    /// Reads values one by one as the command line reads its flags: text may stand for a number, and errors are in the same words.
    fn one_by_one(&self) -> Result<PlanSpec, PlanError> {
        let mut spec = PlanSpec::default();
        for (key, value) in &self.given {
            spec.set(key.path, &values::written(value))?;
        }
        Ok(spec)
    }
}
