//! The kernels of our own: their sources, compiled when a card is first opened, and their names.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use cudarc::driver::{CudaContext, CudaFunction, CudaModule, sys};
use cudarc::nvrtc::{CompileOptions, Ptx, compile_ptx_with_opts};

use super::Precision;
use super::error::{CudaError, call};

/// The kernels' sources, compiled together when a device is opened.
const SOURCES: [&str; 12] = [
    include_str!("kernels/common.cu"),
    include_str!("kernels/pointwise.cu"),
    include_str!("kernels/norm.cu"),
    include_str!("kernels/window.cu"),
    include_str!("kernels/matrix.cu"),
    include_str!("kernels/clip.cu"),
    include_str!("kernels/product.cu"),
    include_str!("kernels/convolve.cu"),
    include_str!("kernels/image.cu"),
    include_str!("kernels/carry.cu"),
    include_str!("kernels/noise.cu"),
    include_str!("kernels/update.cu"),
];

/// Kernels that use more shared memory than a block gets unasked.
const LARGE_KERNELS: &[&str] = &[
    "weight_gradient",
    "image_weight_gradient_1",
    "image_weight_gradient_5",
    "image_weight_gradient_9",
    "image_weight_sum_1",
    "image_weight_sum_5",
    "image_weight_sum_9",
    "whole_weight_sum_1",
    "whole_weight_sum_5",
    "whole_weight_sum_9",
    "image_convolve",
    "group_forward",
    "group_backward",
];
/// Bytes of shared memory those may ask for on every card; a card may have more.
pub(crate) const SHARED_LIMIT: usize = 99 << 10;
/// Bytes that kernels may declare themselves.
pub(crate) const DECLARED: usize = 4 << 10;
/// All other kernels.
const KERNELS: &[&str] = &[
    "unary",
    "unary_backward",
    "add",
    "multiply",
    "copy",
    "dropout",
    "broadcast",
    "broadcast_backward",
    "move",
    "move_four",
    "gather",
    "gather_backward",
    "add_bias",
    "bias_gradient",
    "layer_forward",
    "layer_backward",
    "layer_affine",
    "max_pool",
    "max_pool_backward",
    "average_pool",
    "average_pool_backward",
    "adaptive_pool",
    "adaptive_pool_backward",
    "upsample",
    "upsample_backward",
    "softmax",
    "softmax_backward",
    "count_labels",
    "loss",
    "add_losses",
    "sum_parts",
    "unfold",
    "standardise",
    "standardise_backward",
    "carry",
    "project_filters",
    "part_norms",
    "add_partials",
    "outer_norm",
    "gram",
    "gram_pairs",
    "ghost_norm",
    "sum_written",
    "outer_sum",
    "arrange_weights",
    "add_noise",
    "update_values",
    "move_mean",
    "exchange",
    "to_single",
];

/// All kernels by name, with so many bytes of shared memory for those that may ask for them.
pub(super) fn load(
    context: &Arc<CudaContext>,
    precision: Precision,
    shared: usize,
) -> Result<BTreeMap<&'static str, CudaFunction>, CudaError> {
    let module = module(context, precision)?;
    let mut kernels = BTreeMap::new();
    for &name in KERNELS.iter().chain(LARGE_KERNELS) {
        let kernel = call("loading the kernels", module.load_function(name))?;
        if LARGE_KERNELS.contains(&name) {
            let attribute = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            call("asking for shared memory", kernel.set_attribute(attribute, shared as i32))?;
        }
        kernels.insert(name, kernel);
    }
    Ok(kernels)
}

/// The kernels on a card. They are loaded once a process, card and precision, by one thread while others wait: the driver takes about a
/// second to make them the card's own. They stay, as the card's context is one for the whole process.
fn module(context: &Arc<CudaContext>, precision: Precision) -> Result<Arc<CudaModule>, CudaError> {
    static MODULES: Mutex<BTreeMap<(usize, usize), Arc<CudaModule>>> = Mutex::new(BTreeMap::new());
    let mut modules = MODULES.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (context.ordinal(), precision as usize);
    if let Some(module) = modules.get(&key) {
        return Ok(module.clone());
    }
    let module = call("loading the kernels", context.load_module(image(precision)?))?;
    modules.insert(key, module.clone());
    Ok(module)
}

/// The compiled kernels. They are compiled once a process and precision, for the oldest card that has their instructions; the driver does
/// the rest.
fn image(precision: Precision) -> Result<Ptx, CudaError> {
    static IMAGES: [OnceLock<Ptx>; 3] = [const { OnceLock::new() }; 3];
    let image = &IMAGES[precision as usize];
    if let Some(image) = image.get() {
        return Ok(image.clone());
    }
    let options = CompileOptions {
        arch: Some("compute_80"),
        options: vec!["-std=c++17".into(), format!("-DPRECISION={}", precision as usize)],
        ..CompileOptions::default()
    };
    let compiled = call("compiling the kernels", compile_ptx_with_opts(SOURCES.concat(), options))?;
    Ok(image.get_or_init(|| compiled).clone())
}
