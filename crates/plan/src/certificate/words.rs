//! What a guarantee protects and assumes, in sentences.

use dapple_geometry::{Operation, PaddingMode, Placement};

use crate::plan::Plan;
use crate::{Relation, Sampling};

/// What is protected.
pub(super) fn protects(plan: &Plan) -> String {
    match plan.relation() {
        Relation::AddRemove => "whether any one record is in the data set at all".to_owned(),
        Relation::Replace => "everything about any one record: image and label may be any other".to_owned(),
        Relation::Patch => {
            let spatial = plan.spatial();
            let region = spatial.protected().map_or_else(String::new, |protected| protected.words());
            let image = spatial.image().map_or_else(String::new, |size| format!(" of {size} pixels"));
            let place = match spatial.protected().map(|protected| protected.placement()) {
                Some(Placement::Annotated) => "where the mask marks them",
                Some(Placement::At { .. }) => "at the place given",
                Some(Placement::Anywhere) | None => "wherever it lies",
            };
            format!(
                "the content (pixels and label pixels) of {region} in any one image{image}, {place}; the rest of the image is not protected"
            )
        }
        Relation::Masked => "the private tokens of any one record".to_owned(),
        Relation::User => "all records of any one user".to_owned(),
    }
}

/// What must hold outside this program.
pub(super) fn assumptions(plan: &Plan) -> Vec<String> {
    let mut sentences = vec![sampling(plan)];
    sentences.push(
        "Each record's contribution (the mean over its views) is clipped to the clip norm C, contributions are summed, and Gaussian noise of standard deviation noise_multiplier * C is added to the sum."
            .to_owned(),
    );
    sentences.push(format!(
        "The noisy sum is divided by the fixed expected batch size {}, never by the number of records actually drawn.",
        plan.batch()
    ));
    sentences.push(
        "Noise, sampling and crops come from a cryptographically secure generator whose state stays secret."
            .to_owned(),
    );
    if plan.relation() == Relation::Patch {
        sentences.extend(spatial(plan));
    }
    sentences.push(
        "No step mixes records before clipping (no batch normalisation), and nothing else computed from the records is released: no training loss, no choice of hyperparameters, no statistics of the data set."
            .to_owned(),
    );
    if plan.relation() != Relation::AddRemove {
        sentences.push(format!("The number of records, {}, is public.", plan.records()));
    }
    sentences
}

fn sampling(plan: &Plan) -> String {
    let (batch, records) = (plan.batch(), plan.records());
    match plan.sampling() {
        Sampling::Poisson => format!(
            "In each step each of the {records} records is drawn by its own independent coin with probability {batch}/{records}; an empty batch still takes a step."
        ),
        Sampling::WithoutReplacement => format!(
            "In each step {batch} of the {records} records are drawn uniformly without replacement, independently of other steps; walking through a shuffled data set is not this."
        ),
        Sampling::Balanced { per_record } => {
            format!("Each record joins exactly {per_record} steps, drawn independently of the other records.")
        }
    }
}

fn spatial(plan: &Plan) -> Vec<String> {
    let spatial = plan.spatial();
    let Some(pipeline) = spatial.pipeline() else {
        return vec!["There is no crop: every view of a sampled image shows the region.".to_owned()];
    };
    let drawn = match spatial.views() {
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
        _ => "The region is no larger than stated and lies inside the image.".to_owned(),
    });
    sentences
}
