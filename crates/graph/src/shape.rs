//! Shape inference: what an operation makes of the shapes it reads.

use crate::op::Op;

/// Shape of the output, or what does not fit. Parameter shapes are checked by the builder that makes them.
pub(crate) fn infer(op: &Op, inputs: &[&[usize]]) -> Result<Vec<usize>, String> {
    let arity = match op {
        Op::Input | Op::Parameter(_) => 0,
        Op::Add | Op::Mul | Op::MatMul { .. } => 2,
        Op::Attention { .. } => 3,
        Op::Concat { .. } => inputs.len().max(1),
        _ => 1,
    };
    if inputs.len() != arity {
        return Err(format!("takes {arity} inputs and was given {}", inputs.len()));
    }
    if inputs.iter().any(|shape| shape.contains(&0)) {
        return Err(format!("an input of shape {inputs:?} holds no values"));
    }
    let shape = match op {
        Op::Input | Op::Parameter(_) => return Err("has no inferred shape".into()),
        Op::Conv { .. } | Op::Linear { .. } => return Err("takes its output size from its weight".into()),
        Op::GroupNorm { groups, .. } => {
            let channels = channels(inputs[0])?;
            if *groups == 0 || channels % groups != 0 {
                return Err(format!("{channels} channels do not divide into {groups} groups"));
            }
            inputs[0].to_vec()
        }
        Op::BatchNorm { .. } => {
            channels(inputs[0])?;
            inputs[0].to_vec()
        }
        Op::LayerNorm { .. } | Op::Softmax => {
            last(inputs[0])?;
            inputs[0].to_vec()
        }
        Op::Relu | Op::Relu6 | Op::Gelu | Op::Silu | Op::Tanh | Op::Scale(_) => inputs[0].to_vec(),
        Op::Dropout(rate) | Op::ChannelDropout(rate) => {
            if !(0.0..1.0).contains(rate) {
                return Err(format!("the rate {rate} is not in [0, 1)"));
            }
            inputs[0].to_vec()
        }
        Op::MaxPool(window) | Op::AvgPool(window) => {
            if window.padding.iter().zip(&window.kernel).any(|(padding, kernel)| padding * 2 > *kernel) {
                return Err("the padding is more than half of the kernel".into());
            }
            windowed(inputs[0], inputs[0].first().copied().unwrap_or(0), window)?
        }
        Op::AdaptiveAvgPool(size) => {
            let (channels, spatial) = spatial(inputs[0])?;
            if spatial.len() != size.len() || size.contains(&0) {
                return Err(format!("a spatial shape {spatial:?} cannot be pooled to {size:?}"));
            }
            std::iter::once(channels).chain(size.iter().copied()).collect()
        }
        Op::Upsample(size) => {
            let (channels, spatial) = spatial(inputs[0])?;
            if spatial.len() != 2 || size.contains(&0) {
                return Err(format!("a spatial shape {spatial:?} cannot be resampled to {size:?}"));
            }
            vec![channels, size[0], size[1]]
        }
        Op::Add | Op::Mul => {
            if inputs[0] != inputs[1] {
                return Err(format!("the shapes {:?} and {:?} differ", inputs[0], inputs[1]));
            }
            inputs[0].to_vec()
        }
        Op::Concat { axis } => concat(*axis, inputs)?,
        Op::Slice { axis, start, end } => {
            let mut shape = inputs[0].to_vec();
            match shape.get_mut(*axis) {
                Some(size) if start < end && *end <= *size => *size = end - start,
                _ => return Err(format!("axis {axis} of {:?} has no range {start}..{end}", inputs[0])),
            }
            shape
        }
        Op::Permute(axes) => {
            let mut sorted = axes.clone();
            sorted.sort_unstable();
            if !sorted.iter().copied().eq(0..inputs[0].len()) {
                return Err(format!("{axes:?} does not reorder the axes of {:?}", inputs[0]));
            }
            axes.iter().map(|&axis| inputs[0][axis]).collect()
        }
        Op::Reshape(shape) => {
            if elements(shape) != elements(inputs[0]) {
                return Err(format!("{:?} cannot be reshaped to {shape:?}", inputs[0]));
            }
            shape.clone()
        }
        Op::MatMul { transpose } => matmul(inputs[0], inputs[1], *transpose)?,
        Op::Attention { heads } => {
            let [query, key, value] = [inputs[0], inputs[1], inputs[2]];
            let fits = query.len() == 2 && key.len() == 2 && key == value && query[1] == key[1];
            if !fits || *heads == 0 || query[1] % heads != 0 {
                return Err(format!(
                    "query {query:?}, key {key:?}, value {value:?} do not suit {heads} heads"
                ));
            }
            query.to_vec()
        }
        Op::Gather(indices) => {
            let mut shape = inputs[0].to_vec();
            match shape.first_mut() {
                Some(rows) if !indices.is_empty() && indices.iter().all(|index| index < rows) => {
                    *rows = indices.len()
                }
                _ => return Err(format!("the rows {indices:?} are not all in {:?}", inputs[0])),
            }
            shape
        }
    };
    if shape.contains(&0) { Err(format!("its output {shape:?} holds no values")) } else { Ok(shape) }
}

/// Output shape of a convolution with `out` channels.
pub(crate) fn windowed(
    input: &[usize],
    out: usize,
    window: &crate::op::Window,
) -> Result<Vec<usize>, String> {
    let (_, spatial) = spatial(input)?;
    let Some(output) = window.output(spatial) else {
        return Err(format!("a window of {:?} does not fit {input:?}", window.kernel));
    };
    let shape: Vec<usize> = std::iter::once(out).chain(output).collect();
    if elements(&shape).is_none() || window.taps() == 0 {
        return Err(format!("a window of {:?} does not fit {input:?}", window.kernel));
    }
    Ok(shape)
}

/// Channels and spatial shape of an image or clip.
pub(crate) fn spatial(shape: &[usize]) -> Result<(usize, &[usize]), String> {
    match shape {
        [channels, spatial @ ..] if spatial.len() == 2 || spatial.len() == 3 => Ok((*channels, spatial)),
        _ => Err(format!(
            "{shape:?} is neither [channels, height, width] nor [channels, depth, height, width]"
        )),
    }
}

fn channels(shape: &[usize]) -> Result<usize, String> {
    shape.first().copied().ok_or_else(|| "a scalar has no channels".into())
}

/// Size of the last axis.
pub(crate) fn last(shape: &[usize]) -> Result<usize, String> {
    shape.last().copied().ok_or_else(|| "a scalar has no last axis".into())
}

/// Number of values, `None` where it overflows.
pub(crate) fn elements(shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(1usize, |product, &size| product.checked_mul(size))
}

fn concat(axis: usize, inputs: &[&[usize]]) -> Result<Vec<usize>, String> {
    let mut shape = inputs.first().ok_or("has nothing to join")?.to_vec();
    if axis >= shape.len() {
        return Err(format!("{shape:?} has no axis {axis}"));
    }
    for input in &inputs[1..] {
        let fits = input.len() == shape.len() && (0..shape.len()).all(|a| a == axis || input[a] == shape[a]);
        if !fits {
            return Err(format!("{input:?} cannot be joined to {shape:?} along axis {axis}"));
        }
        shape[axis] += input[axis];
    }
    Ok(shape)
}

fn matmul(left: &[usize], right: &[usize], transpose: bool) -> Result<Vec<usize>, String> {
    let refuse = || {
        format!("{left:?} cannot be multiplied by {right:?}{}", if transpose { " transposed" } else { "" })
    };
    let rank = left.len();
    if rank < 2 || right.len() != rank || left[..rank - 2] != right[..rank - 2] {
        return Err(refuse());
    }
    let (inner, columns) =
        if transpose { (right[rank - 1], right[rank - 2]) } else { (right[rank - 2], right[rank - 1]) };
    if left[rank - 1] != inner {
        return Err(refuse());
    }
    let mut shape = left.to_vec();
    shape[rank - 1] = columns;
    Ok(shape)
}
