//! Our own kernels: their sources, which are compiled when a card is first opened, and beside each source the declarations of its kernels.

mod attention;
mod carry;
mod clip;
mod convolve;
mod declare;
mod gradient;
mod halves;
mod image;
mod matrix;
mod narrow;
mod noise;
mod norm;
mod pointwise;
mod relative;
#[cfg(test)]
mod signatures;
mod tokens;
mod update;
mod window;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use cudarc::driver::{CudaContext, CudaFunction, CudaModule, sys};
use cudarc::nvrtc::{CompileOptions, Ptx, compile_ptx_with_opts};

use super::Precision;
use super::error::{CudaError, call};
pub(crate) use attention::{AttentionAlong, AttentionForward, AttentionGradient, HEAD};
pub(crate) use carry::{Carry, ProjectFilters, ToSingle};
pub(crate) use clip::{
    AddPartials, GhostNorm, GradientBlock, GradientPart, Gram, OuterNorm, OuterSum, PartNorms, PartialRange,
    Standardise, StandardiseBackward, SumWritten,
};
pub(crate) use convolve::{SumParts, WeightGradient};
use declare::Declaration;
pub(crate) use gradient::{HalvedGradientTiles, gradient_tiles};
pub(crate) use halves::{HALVED_BLOCK, HalvedBlock, SizesOfSamples, SumHalves, TakePowersOff, ToHalves};
pub(crate) use image::{
    ArrangeWeights, ImageConvolve, ImageStrip, ImageWeightGradient, ImageWeightSum, TAPS,
};
pub(crate) use matrix::{
    AddLosses, CLASSES, CountLabels, LossOfParts, MatrixAddresses, PROBABILITIES, Softmax, SoftmaxBackward,
    VALUES,
};
pub(crate) use narrow::{
    NarrowAdd, NarrowBiasGradient, NarrowLayerAffine, NarrowLayerBackward, NarrowLayerForward, NarrowUnary,
    NarrowUnaryBackward,
};
pub(crate) use noise::{AddNoise, NoiseKey};
pub(crate) use norm::{GroupBackward, GroupForward, LayerAffine, LayerBackward, LayerForward};
pub(crate) use pointwise::{
    Add, AddBias, BiasGradient, Broadcast, BroadcastBackward, ChannelScale, ChannelScaleGradient, Copy,
    Dropout, Gather, GatherBackward, MoveFour, MoveValues, Multiply, RowBiasGradient, SCALE, Unary,
    UnaryBackward,
};
pub(crate) use relative::{
    BehindFirst, RelativeQueries, RelativeScores, RelativeSums, RelativeTerms, RelativeValues,
};
pub(crate) use tokens::{HELD_WEIGHTS, TokenConv, TokenConvBackward, TokenConvGradient};
pub(crate) use update::{
    ADAM, CORRECTED_ADAM, Exchange, MOMENTUM, MoveMean, PLAIN, UpdateBlock, UpdateValues,
};
pub(crate) use window::{
    AdaptivePool, AdaptivePoolBackward, AveragePool, AveragePoolBackward, MaxPool, MaxPoolBackward, Unfold,
    Upsample, UpsampleBackward,
};

/// The sources, which are compiled together, and the kernels of each.
const SOURCES: [(&str, &[Declaration]); 18] = [
    (include_str!("common.cu"), &[]),
    (include_str!("pointwise.cu"), pointwise::KERNELS),
    (include_str!("norm.cu"), norm::KERNELS),
    (include_str!("window.cu"), window::KERNELS),
    (include_str!("matrix.cu"), matrix::KERNELS),
    (include_str!("clip.cu"), clip::KERNELS),
    (include_str!("halves.cu"), halves::KERNELS),
    (include_str!("narrow.cu"), narrow::KERNELS),
    (include_str!("product.cu"), &[]),
    (include_str!("attention.cu"), attention::KERNELS),
    (include_str!("gradient.cu"), gradient::KERNELS),
    (include_str!("convolve.cu"), convolve::KERNELS),
    (include_str!("image.cu"), image::KERNELS),
    (include_str!("carry.cu"), carry::KERNELS),
    (include_str!("noise.cu"), noise::KERNELS),
    (include_str!("update.cu"), update::KERNELS),
    (include_str!("tokens.cu"), tokens::KERNELS),
    (include_str!("relative.cu"), relative::KERNELS),
];

/// How many bytes of shared memory a block of a large kernel may ask for on any card. Some cards have more.
pub(crate) const SHARED_LIMIT: usize = 99 << 10;
/// How many bytes of shared memory kernels may declare themselves.
pub(crate) const DECLARED: usize = 4 << 10;

/// Loads all kernels, and allows the large ones to ask for `shared` bytes of shared memory.
pub(super) fn load(
    context: &Arc<CudaContext>,
    precision: Precision,
    shared: usize,
) -> Result<BTreeMap<&'static str, CudaFunction>, CudaError> {
    let module = module(context, precision)?;
    let mut kernels = BTreeMap::new();
    for declaration in SOURCES.iter().flat_map(|(_, declarations)| *declarations) {
        for &name in declaration.names {
            let kernel = call("loading the kernels", module.load_function(name))?;
            if declaration.large {
                let attribute =
                    sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
                call("asking for shared memory", kernel.set_attribute(attribute, shared as i32))?;
            }
            kernels.insert(name, kernel);
        }
    }
    Ok(kernels)
}

/// The kernels on a card. They are loaded once for each process, card and precision, by one thread while others wait, because the driver
/// takes about a second to compile them for the card. They stay loaded, as the card's context does.
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

/// The compiled kernels. They are compiled once for each process and precision, for the oldest cards that have the instructions they use;
/// the driver does the rest.
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
    let source = SOURCES.map(|(text, _)| text).concat();
    let compiled = call("compiling the kernels", compile_ptx_with_opts(source, options))?;
    Ok(image.get_or_init(|| compiled).clone())
}
