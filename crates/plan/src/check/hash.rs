//! The fingerprint of a plan.

use std::fmt::Write;

use dapple_geometry::{CropDistribution, Region};
use dapple_number::hexadecimal;
use sha2::{Digest, Sha256};

use super::operations;
use crate::spec::MaskedContent;
use crate::{MaskedTokens, Plan, Sampling};

/// SHA-256 of the canonical form of what is priced: one line for each value, with defaults filled in. Sections that cannot change the
/// guarantee are left out. Spelling, the order of keys and the name of a mask file do not matter; the pixels of a mask do.
pub(crate) fn of(plan: &Plan) -> String {
    let mut text = String::from("dapple plan 1\n");
    let mut line = |key: &str, value: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{key} = {value}");
    };
    line("privacy.relation", plan.relation.to_string());
    line("privacy.delta", exact(plan.delta));
    line("privacy.noise_multiplier", exact(plan.noise_multiplier));
    line("privacy.max_grad_norm", plan.max_grad_norm.map_or_else(String::new, exact));
    if let (Some(clip), Some(count_noise)) = (plan.clip_quantile, plan.count_noise()) {
        line("privacy.clip_quantile", exact(clip.quantile()));
        line("privacy.clip_rate", exact(clip.rate()));
        line("privacy.count_noise", exact(count_noise));
    }
    line("sampling.scheme", plan.sampling.to_string());
    if let Sampling::Balanced { per_record, epoch_steps } = plan.sampling {
        line("sampling.per_record", per_record.to_string());
        line("sampling.epoch_steps", epoch_steps.to_string());
    }
    line("sampling.batch", plan.batch.to_string());
    line("sampling.records", plan.records.to_string());
    line("sampling.steps", plan.steps.to_string());
    if let Some(limit) = plan.batch_limit() {
        line("sampling.max_batch", limit.most().to_string());
    }
    if let Some(noise) = plan.correlated_noise() {
        let coefficients = noise.coefficients().map(exact).collect::<Vec<_>>();
        line("noise.coefficients", coefficients.join(" "));
    }
    let averaged = plan.averaged;
    for (key, value, default) in [
        ("mix.self_mix", u64::from(averaged.self_mix), 0),
        ("mix.synthetic", u64::from(averaged.synthetic), 0),
        ("privacy.records_per_clip", averaged.records_per_clip, 1),
    ] {
        if value != default {
            line(key, value.to_string());
        }
    }
    if let Some(split) = &plan.split {
        for partition in split.partitions() {
            line("partition.submodels", format!("{} {}", partition.submodels, exact(partition.probability)));
        }
        line("partition.by_dropout", split.by_dropout().to_string());
        line("partition.split_norm", exact(split.split_norm()));
        line("partition.nonsplit_norm", exact(split.nonsplit_norm()));
    }
    if let Some(MaskedTokens { content, public }) = plan.masked {
        line("masked.public_gradient", public.mode().name().to_owned());
        line("masked.public_clip", exact(public.reach()));
        // Plans from before there was a choice keep their hash.
        if content != MaskedContent::Substitute {
            line("masked.content", content.name().to_owned());
        }
    }
    let spatial = &plan.spatial;
    line("pipeline.image", spatial.image().map_or_else(String::new, |size| size.to_string()));
    if let Some(sizes) = spatial.sizes() {
        line("pipeline.sizes", format!("{}:{}", sizes.least, sizes.most));
    }
    if let Some(pipeline) = spatial.pipeline() {
        pipeline
            .before()
            .iter()
            .for_each(|operation| line("pipeline.operation", operations::write(operation)));
        line("pipeline.crop", crop(pipeline.crop_distribution()));
    }
    line("pipeline.views", spatial.views().to_string());
    if let Some(window) = spatial.window() {
        line("pipeline.frames", window.frames().to_string());
        line("pipeline.window", window.shown().to_string());
        line("region.duration", window.duration().map_or_else(String::new, |duration| duration.to_string()));
    }
    if let Some(noise) = spatial.pixel_noise() {
        line("pipeline.pixel_noise", exact(noise.deviation()));
    }
    if let Some(protected) = spatial.protected() {
        line("region.placement", protected.placement().to_string());
        for region in protected.regions() {
            line("region", fingerprint(region));
        }
        if let Some(travel) = protected.travel() {
            line("region.travel", travel.to_string());
        }
    }
    for phase in &plan.phases {
        line("phase", phase.hash.clone());
    }
    digest(text.as_bytes())
}

/// SHA-256 in hexadecimal digits.
pub(crate) fn digest(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

fn crop(crop: &CropDistribution) -> String {
    match crop {
        CropDistribution::Fixed(size) => format!("fixed {size}"),
        CropDistribution::Resized(crop) => {
            let ((a, b), (c, d)) = (crop.scale(), crop.ratio());
            format!("resized {} {} {} {}", exact(a), exact(b), exact(c), exact(d))
        }
    }
}

fn fingerprint(region: &Region) -> String {
    match region {
        Region::Rectangle(size) => format!("rectangle {size}"),
        Region::Circle { radius } => format!("circle {}", exact(*radius)),
        Region::Mask(mask) => format!("mask {} {}", mask.size(), digest(mask.bytes())),
        Region::Union(parts) => {
            let parts =
                parts.iter().map(|part| format!("{},{} {}", part.x, part.y, fingerprint(&part.region)));
            format!("union [{}]", parts.collect::<Vec<_>>().join("; "))
        }
    }
}

/// A number written so that no two numbers look the same.
fn exact(value: f64) -> String {
    format!("{value:?}")
}
