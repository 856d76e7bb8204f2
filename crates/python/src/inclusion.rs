//! `inclusion`, `inclusion_probability`.

use std::sync::Arc;

use dapple_plan::{PlanError, Seen, Spatial};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyMapping, PyMemoryView};

use crate::errors::Raise;
use crate::request::PlanRequest;
use crate::worker;

/// How likely a crop is to see the private region at the region's worst place.
#[pyclass(module = "dapple", frozen)]
pub(crate) struct Inclusion {
    spatial: Arc<Spatial>,
    /// The probability that any of the views sees the region. It is never too small.
    #[pyo3(get)]
    probability: f64,
    /// The probability that one view sees the region.
    #[pyo3(get)]
    probability_of_one_view: f64,
    /// Where the region's bounding box starts at its worst place: x, y.
    #[pyo3(get)]
    worst_origin: Option<(u32, u32)>,
    /// How many places a crop of fixed size has.
    #[pyo3(get)]
    crop_origins: Option<u64>,
    /// From how many of these places the crop sees the region.
    #[pyo3(get)]
    hits: Option<u64>,
    /// Views of a record.
    #[pyo3(get)]
    views: u32,
}

impl Inclusion {
    fn of(request: &PlanRequest) -> Result<Self, PlanError> {
        let spatial = Spatial::check(&request.spec, &request.masks)?;
        let Seen { probability, worst_origin, crop_origins, hits, probability_of_one_view, views, .. } =
            Seen::new(&spatial)?;
        Ok(Self {
            spatial: Arc::new(spatial),
            probability,
            probability_of_one_view,
            worst_origin,
            crop_origins,
            hits,
            views,
        })
    }
}

#[pymethods]
impl Inclusion {
    /// One view's probability for each place of the region's centre, `[height, width]` in single precision. `numpy.asarray` takes the map
    /// without a copy.
    #[pyo3(signature = () -> "memoryview")]
    fn heatmap<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let spatial = self.spatial.clone();
        let map = worker::run(py, move |_| spatial.heatmap())?.map_err(|error| error.raise(py))?;
        let shape = (map.size.height(), map.size.width());
        let bytes = PyBytes::new_with(py, 4 * map.values.len(), |bytes| {
            for (place, value) in bytes.chunks_exact_mut(4).zip(&map.values) {
                place.copy_from_slice(&value.to_ne_bytes());
            }
            Ok(())
        })?;
        PyMemoryView::from(&bytes)?.call_method1("cast", ("f", shape))
    }

    fn __repr__(&self) -> String {
        let origin = self.worst_origin.map_or_else(|| "None".to_owned(), |(x, y)| format!("({x}, {y})"));
        let count =
            |number: Option<u64>| number.map_or_else(|| "None".to_owned(), |number| number.to_string());
        format!(
            "Inclusion(probability={:?}, worst_origin={origin}, hits={}, crop_origins={}, views={})",
            self.probability,
            count(self.hits),
            count(self.crop_origins),
            self.views
        )
    }
}

/// Computes how likely a crop is to see the private region at the region's worst place.
///
/// >>> import dapple
/// >>> dapple.inclusion(image=(1000, 1000), crop=(100, 100), patch=(10, 10))
/// Inclusion(probability=0.014635360143680533, worst_origin=(495, 495), hits=11881, crop_origins=811801, views=1)
#[pyfunction]
#[pyo3(signature = (plan: "Plan | Mapping[str, Any] | str | PathLike[str] | None" = None, /, *, set: "Mapping[str, Any] | None" = None, **values: "Unpack[PlanKeywords]"))]
pub(crate) fn inclusion(
    py: Python<'_>,
    plan: Option<&Bound<'_, PyAny>>,
    set: Option<&Bound<'_, PyMapping>>,
    values: Option<&Bound<'_, PyDict>>,
) -> PyResult<Inclusion> {
    let request = PlanRequest::read(plan, set, values)?;
    worker::run(py, move |_| Inclusion::of(&request))?.map_err(|error| error.raise(py))
}

/// The probability that any view of a record sees the private region at the region's worst place. It is never too small.
///
/// The region is a rectangle (`patch`), a disc (`circle`) or any set of pixels (`region_mask`: an array of bool or uint8,
/// `[height, width]`, or the path of a PNG picture).
///
/// >>> import dapple
/// >>> dapple.inclusion_probability(image=(2048, 1024), crop=(505, 505), patch=(10, 10))
/// 0.3290603826225588
#[pyfunction]
#[pyo3(signature = (plan: "Plan | Mapping[str, Any] | str | PathLike[str] | None" = None, /, *, set: "Mapping[str, Any] | None" = None, **values: "Unpack[PlanKeywords]"))]
pub(crate) fn inclusion_probability(
    py: Python<'_>,
    plan: Option<&Bound<'_, PyAny>>,
    set: Option<&Bound<'_, PyMapping>>,
    values: Option<&Bound<'_, PyDict>>,
) -> PyResult<f64> {
    Ok(inclusion(py, plan, set, values)?.probability)
}
