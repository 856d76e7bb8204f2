//! Sentences about what a guarantee protects and assumes.

use dapple_geometry::{Operation, PaddingMode, Placement};

use super::partition;
use crate::Plan;
use crate::error::PlanError;
use crate::spec::MaskedContent;
use crate::{
    Averaged, BalancedBound, MaskedTokens, PixelNoise, PublicTokens, Relation, Sampling, Spatial, number,
};

/// What is protected.
pub(crate) fn protects(plan: &Plan) -> String {
    match plan.relation() {
        Relation::AddRemove => "whether any one record is in the data set at all".to_owned(),
        Relation::Replace => "everything about any one record: image and label may be any other".to_owned(),
        Relation::Patch => {
            let spatial = plan.spatial();
            let region = spatial.protected().map_or_else(String::new, |protected| protected.words());
            let image = match (spatial.sizes(), spatial.image()) {
                (Some(sizes), _) => format!(" of {} to {} pixels", sizes.least, sizes.most),
                (None, Some(size)) => format!(" of {size} pixels"),
                (None, None) => String::new(),
            };
            let place = match spatial.protected().map(|protected| protected.placement()) {
                Some(Placement::Annotated) => "where the mask marks them",
                Some(Placement::At { .. }) => "at the place given",
                Some(Placement::Anywhere) | None => "wherever it lies",
            };
            let content = match spatial.pixel_noise() {
                Some(_) => "pixels",
                None => "pixels, and label pixels where every pixel has a label",
            };
            let moves = spatial.protected().is_some_and(|protected| protected.travel().is_some());
            let record = if moves || spatial.window().is_some() { "clip" } else { "image" };
            let lasts = spatial.window().and_then(|window| Some((window.duration()?, window.frames())));
            let region = match lasts {
                Some((duration, frames)) => format!("{region}, in at most {duration} consecutive of {frames} frames,"),
                None => region,
            };
            format!(
                "the content ({content}) of {region} in any one {record}{image}, {place}; the rest of the {record} and its class label are not protected"
            )
        }
        Relation::Masked if removes(plan) => "whether the content of the private tokens of any one record was there at all (one content in the place of another is two such changes); the record's public tokens, its label, and which of its tokens are private are taken as public and not protected".to_owned(),
        Relation::Masked => "the content of the private tokens of any one record; its public tokens, its label, and which of its tokens are private are taken as public and not protected".to_owned(),
        Relation::User => "everything about any one user: whether the user takes part at all, and all records of the user".to_owned(),
    }
}

/// Whether neighbours differ in private tokens that are there or not.
fn removes(plan: &Plan) -> bool {
    plan.masked().is_some_and(|tokens| tokens.content == MaskedContent::Remove)
}

/// What must hold outside this program. A sentence that concerns only some phases names them.
pub(super) fn assumptions(plan: &Plan) -> Vec<String> {
    let lists: Vec<Vec<String>> = plan.parts().iter().map(of_phase).collect();
    let mut sentences: Vec<String> = Vec::new();
    for (index, sentence) in
        lists.iter().enumerate().flat_map(|(index, list)| list.iter().map(move |s| (index, s)))
    {
        let everywhere = lists.iter().all(|list| list.contains(sentence));
        let sentence = if everywhere { sentence.clone() } else { format!("Phase {}: {sentence}", index + 1) };
        if !sentences.contains(&sentence) {
            sentences.push(sentence);
        }
    }
    sentences
}

fn of_phase(plan: &Plan) -> Vec<String> {
    let mut sentences = vec![sampling(plan)];
    if let Some(limit) = plan.batch_limit() {
        sentences.push(format!(
            "Where more than {} {} are drawn, a uniform subset of so many is kept. The price counts that as many others are drawn with a probability of at most {}, and that a record which is kept then takes the place of another.",
            limit.most(),
            units(plan),
            number::up(limit.probability(plan.batch(), plan.records()), 3)
        ));
    }
    let averaged = plan.averaged();
    let mean = mean(plan);
    let clip = partition::clip(plan);
    sentences.push(format!(
        "{}, contributions are summed, and Gaussian noise of standard deviation {} * C is added to the sum.",
        match plan.relation() {
            Relation::Masked =>
                format!("Each record's gradient over its private tokens ({mean}) is clipped {clip}"),
            Relation::User =>
                format!("Each user's update of a round, over all the user's records and local steps, is clipped as a whole {clip}"),
            _ if averaged.shares_clip() => format!(
                "Each drawn record joins one of {} microbatches of {} records in expectation, and the mean over a microbatch ({mean}) is clipped to the clip norm C",
                plan.contributions(),
                averaged.records_per_clip
            ),
            Relation::AddRemove | Relation::Replace | Relation::Patch =>
                format!("Each record's contribution ({mean}) is clipped {clip}"),
        },
        match plan.clip_quantile() {
            None => "noise_multiplier".to_owned(),
            Some(_) => number::down(plan.gradient_noise(), 5),
        }
    ));
    if let (Some(quantile), Some(noise)) = (plan.clip_quantile(), plan.count_noise()) {
        sentences.push(format!(
            "The clip norm C follows the {}-quantile of the contributions' norms: beside the sum, each step releases how many of the {} drawn are within C, less half the number drawn, with Gaussian noise of standard deviation {}. Both together cost as much as noise of noise_multiplier * C on the sum alone; the next C follows from what was released.",
            number::exact(quantile.quantile()),
            units(plan),
            number::brief(noise)
        ));
    }
    if let Some(noise) = plan.correlated_noise() {
        sentences.push(format!(
            "What a step releases is the sum of its contributions and of those of the {} steps before, times coefficients whose norm is at most {}, with the noise of that step. The sums themselves are in memory alone; a run that is resumed begins without them.",
            noise.bands() - 1,
            number::up(noise.norm(), 5)
        ));
    }
    if let Some(sizes) = plan.spatial().sizes() {
        sentences.push(format!(
            "Images have sizes from {} to {}, and others are refused before the first step; the price is that of the smallest, in which a crop sees most. Which size each image has is taken as public.",
            sizes.least, sizes.most
        ));
    }
    sentences.push(match plan.clip_groups() {
        None => format!(
            "The noisy sum is divided by the fixed expected batch size {}, never by the number of {} actually drawn.",
            plan.batch(),
            units(plan)
        ),
        Some(groups) => format!(
            "The noisy sum is divided by the fixed number of microbatches {groups}, never by the number of those that records actually joined."
        ),
    });
    sentences.push(
        "Noise, sampling and crops come from a cryptographically secure generator whose state stays secret."
            .to_owned(),
    );
    if plan.relation() == Relation::Patch {
        sentences.extend(spatial(plan));
    }
    sentences.extend(mixed(plan));
    sentences.extend(partition::assumptions(plan));
    if let Some(tokens) = plan.masked() {
        sentences.extend(masked(tokens));
    }
    sentences.push(format!(
        "No step mixes {} before clipping (no batch normalisation), and nothing else computed from the records is released: no training loss, no choice of hyperparameters, no statistics of the data set.",
        match plan.relation() {
            Relation::User => "records of different users",
            _ if averaged.shares_clip() => "records of different microbatches",
            _ => "records",
        }
    ));
    sentences.push(match plan.relation() {
        Relation::AddRemove | Relation::User => format!(
            "The number of {}, {}, is taken as public although neighbours differ in it: the sample rate, and whatever else of the plan follows from it, is the same for both.",
            units(plan),
            plan.records()
        ),
        Relation::Replace | Relation::Patch | Relation::Masked => {
            format!("The number of records, {}, is public.", plan.records())
        }
    });
    sentences
}

/// The theorem behind the number, in words.
pub(super) fn theorem(plan: &Plan, bound: Option<BalancedBound>) -> Result<String, PlanError> {
    let mut citation = plan.theorem()?.citation().to_owned();
    if plan.averaged().shares_clip() {
        citation.push_str("; a record of a microbatch moves the sum by up to two clip norms, whether it is absent, added or substituted (DP-Mix, section 2; Ponomareva et al. 2023)");
    }
    if plan.clip_quantile().is_some() {
        citation.push_str("; the sum and the count of contributions within the clip norm are one Gaussian mechanism (Andrew et al. 2021, Theorem 1)");
    }
    if noisy_pixels(plan).is_some() {
        citation.push_str("; noisy views tell two contents apart as often as their total variation distance says (Schuchardt et al. 2025)");
    }
    if plan.correlated_noise().is_some() {
        citation.push_str("; each chance of a record to be drawn moves releases that no other one moves, and costs what one release costs whose distances are multiplied by the norm of the coefficients, as in banded matrix factorisation with cyclic Poisson sampling (Choquette-Choo et al. 2023)");
    }
    citation.push_str(&partition::citation(plan, bound));
    Ok(citation)
}

/// The noise on pixels, where it enters the price.
fn noisy_pixels(plan: &Plan) -> Option<PixelNoise> {
    plan.spatial().pixel_noise().filter(|_| plan.relation() == Relation::Patch)
}

/// What a record's contribution is the mean of.
fn mean(plan: &Plan) -> String {
    let (averaged, views) = (plan.averaged(), plan.spatial().views());
    let Averaged { self_mix, synthetic, .. } = averaged;
    match averaged.shares_clip() {
        true if self_mix == 0 && synthetic == 0 => "all views of its records".to_owned(),
        true => format!(
            "of each record views {views} and synthetic images {synthetic}, and mixtures {self_mix} of two of all these"
        ),
        false if self_mix == 0 && synthetic == 0 => "the mean over its views".to_owned(),
        false => format!("the mean over views {views}, mixtures {self_mix} and synthetic images {synthetic}"),
    }
}

fn mixed(plan: &Plan) -> Vec<String> {
    let averaged = plan.averaged();
    let mut sentences = Vec::new();
    if averaged.self_mix > 0 {
        sentences.push(match averaged.shares_clip() {
            false => "Mixtures combine the views and synthetic images of one record, never two records.",
            true => "Mixtures combine the views and synthetic images of one microbatch, never two microbatches.",
        }.to_owned());
    }
    if averaged.synthetic > 0 {
        sentences.push("Synthetic images come from a model that was not trained on this data set, or are public images that are not in it, and are drawn independently of it; this is the claim of whoever wrote the plan, and no program can check it.".to_owned());
    }
    if plan.spatial().views() == 0 {
        sentences.push("No view of a record is ever shown to the model, so that all it learns about images comes from the synthetic ones: this epsilon buys nothing. Training on the synthetic images alone, without noise, would have cost none.".to_owned());
    }
    if averaged.shares_clip() {
        sentences.push(match plan.sampling() {
            Sampling::WithoutReplacement => "The microbatch of a drawn record is a uniform draw of its own, or that of its place in a batch of uniformly random order, so that a record drawn in the place of another changes one microbatch only.",
            Sampling::Poisson | Sampling::Balanced { .. } => "The microbatch of a drawn record does not depend on which other records are drawn, so that a record more or less changes one microbatch only.",
        }.to_owned());
    }
    sentences
}

/// What is drawn, in the plural.
pub(super) fn units(plan: &Plan) -> &'static str {
    if plan.relation() == Relation::User { "users" } else { "records" }
}

fn masked(tokens: MaskedTokens) -> Vec<String> {
    let without = "A record whose private tokens are not there adds nothing to the private sum, and is drawn and counted like any other.".to_owned();
    let removed = (tokens.content == MaskedContent::Remove).then_some(without);
    let mut sentences = vec![
        "The public gradient is computed from public tokens, labels and released weights alone: private tokens pass the model separately and enter the private gradient only."
            .to_owned(),
        "Which tokens are private is public, and the same in neighbouring data sets: what masks that were made by looking at private content tell of it is not protected.".to_owned(),
        match tokens.public {
            PublicTokens::Decoupled => "The gradient of public tokens comes from a batch of public tokens that is drawn independently of the private batch, so it depends on public data and released weights only; it needs no clipping and no noise.".to_owned(),
            PublicTokens::CoupledClipped { clip } => format!("The gradient of each sampled record's public tokens is clipped to {clip} * C before it is added to the same noisy sum."),
            PublicTokens::Coupled => "The gradient of each sampled record's public tokens is added to the noisy sum without clipping, so a step may reveal whether a record was drawn; the guarantee does not rely on that staying secret.".to_owned(),
        },
    ];
    sentences.extend(removed);
    sentences
}

fn sampling(plan: &Plan) -> String {
    let (batch, records, units) = (plan.batch(), plan.records(), units(plan));
    match plan.sampling() {
        Sampling::Poisson if plan.groups() > 1 => format!(
            "Each of the {records} {units} belongs to one of {groups} groups by a coin of its own, tossed once for the whole run. Each step draws from one group, one group after the other: each of its {units} by its own independent coin with probability {drawn}/{records}; an empty batch still takes a step.",
            groups = plan.groups(),
            drawn = plan.groups() * batch,
        ),
        Sampling::Poisson => format!(
            "In each step each of the {records} {units} is drawn by its own independent coin with probability {batch}/{records}; an empty batch still takes a step."
        ),
        Sampling::WithoutReplacement => format!(
            "In each step {batch} of the {records} records are drawn uniformly without replacement, independently of other steps; walking through a shuffled data set is not this."
        ),
        Sampling::Balanced { per_record, epoch_steps } => partition::balanced(plan, per_record, epoch_steps),
    }
}

fn spatial(plan: &Plan) -> Vec<String> {
    let mut sentences = crops(plan);
    sentences.extend(noisy_pixels(plan).map(|noise| {
        format!(
            "Values of a view, cut to 0 to 1, get independent Gaussian noise of standard deviation {} before anything else sees them, anew in every view; a view that shows the region tells two contents of it apart with probability at most {}. Labels get none: an image has one class, which the region does not decide.",
            number::exact(noise.deviation()),
            number::up(noise.distance(), 4)
        )
    }));
    sentences
}

fn crops(plan: &Plan) -> Vec<String> {
    let spatial = plan.spatial();
    let Some(pipeline) = spatial.pipeline() else {
        let no_crop = match spatial.window() {
            Some(_) => "There is no crop: every view of a sampled clip shows the region if its window does.",
            None => "There is no crop: every view of a sampled image shows the region.",
        };
        return std::iter::once(no_crop.to_owned()).chain(window(spatial)).collect();
    };
    let drawn = match spatial.views() {
        0 => return vec!["No view of an image is shown; the price is that of one view.".to_owned()],
        1 => "The crop of an image is drawn anew in each step, its origin".to_owned(),
        views => format!(
            "The crops of the {views} views of an image are drawn anew in each step, independently, each origin"
        ),
    };
    let mut sentences = vec![format!(
        "{drawn} uniform over all places and independent of the content and of the other records; crops are never cached."
    )];
    let pads = pipeline.before().iter().filter_map(|operation| match operation {
        Operation::Pad { mode, .. } => Some(*mode),
        _ => None,
    });
    for mode in pads {
        sentences.push(match mode {
            PaddingMode::Zero => "Padding is a constant that does not depend on the image.".to_owned(),
            copies => format!("Padding is of mode {copies}; its copies of the region are counted."),
        });
    }
    sentences.push(
        "Before the crop nothing but the operations of the plan touches the image, none of them spreading a pixel over the whole image; image and label map are cropped at the same origin."
            .to_owned(),
    );
    sentences.push(match spatial.protected().map(|protected| protected.placement()) {
        Some(Placement::Annotated) => "The region lies where the mask marks it, in every image.".to_owned(),
        _ if spatial.protected().is_some_and(|protected| protected.travel().is_some()) => {
            "In every frame of a clip in which it is seen, the region is no larger than stated and lies inside the frame; between any two of them it moves by no more than stated. All frames of a clip are cropped at the same origin.".to_owned()
        }
        _ => "The region is no larger than stated and lies inside the image.".to_owned(),
    });
    sentences.extend(window(spatial));
    sentences
}

/// What is assumed of windows of frames.
fn window(spatial: &Spatial) -> Option<String> {
    let window = spatial.window()?;
    let lasts = match window.duration() {
        Some(duration) => format!(" The frames that show the region are within {duration} consecutive ones."),
        None => String::new(),
    };
    Some(format!(
        "Each view of a clip shows {} of its {} frames, one after the other, the first of which is uniform over all places, drawn anew in each step and independently of the crop and of the content.{lasts}",
        window.shown(),
        window.frames()
    ))
}
