//! Sentences about balanced sampling and split models.

use dapple_accounting::{AllocationBound, Partition};

use super::words::units;
use crate::Plan;
use crate::{BalancedBound, Relation, Sampling, Split};

/// What balanced sampling must do.
pub(super) fn balanced(plan: &Plan, per_record: u64, epoch_steps: u64) -> String {
    let unit = unit(plan);
    let (epochs, anew) = match plan.steps() / epoch_steps {
        1 => (String::new(), ""),
        epochs => (format!(" of each of {epochs} epochs"), ", anew in each epoch"),
    };
    format!(
        "Each {unit} joins exactly {per_record} of the {epoch_steps} steps{epochs}: a uniform subset of the steps, drawn for each {unit} independently of all others{anew}, and kept secret. Cutting a shuffled data set into batches of fixed size is not this; an empty batch still takes a step."
    )
}

/// The bound that gave epsilon.
pub(super) fn bound(plan: &Plan, bound: BalancedBound) -> String {
    if sees_everything(plan) {
        return "plain composition, every step seeing every record".to_owned();
    }
    bound.words()
}

/// Whether epsilon by this bound is that of the run itself.
pub(super) fn is_tight(plan: &Plan, bound: BalancedBound) -> bool {
    match bound {
        BalancedBound::OneMove(bound) => bound == AllocationBound::Exact,
        BalancedBound::TwoMoves(_) => false,
        // A patch or some tokens need not move the contribution as far as a whole record does.
        BalancedBound::KnownSteps => sees_everything(plan) && plan.relation() == Relation::Replace,
    }
}

/// Whether every record joins every step and updates the whole model, so that nothing is hidden.
fn sees_everything(plan: &Plan) -> bool {
    plan.parts().iter().all(|part| match part.sampling() {
        Sampling::Balanced { per_record, epoch_steps } => per_record == epoch_steps && part.split().is_none(),
        Sampling::Poisson | Sampling::WithoutReplacement => false,
    })
}

/// What a contribution is clipped to.
pub(super) fn clip(plan: &Plan) -> String {
    match plan.split() {
        Some(split) if !split.is_whole() => format!(
            "to {} C in its split part and to {} C in the rest, C being the clip norm",
            split.split_norm(),
            split.nonsplit_norm()
        ),
        Some(split) if split.split_norm() != 1.0 => {
            format!("to {} C, C being the clip norm", split.split_norm())
        }
        _ => "to the clip norm C".to_owned(),
    }
}

/// What splitting the model must do.
pub(super) fn assumptions(plan: &Plan) -> Vec<String> {
    let Some(split) = plan.split() else { return Vec::new() };
    let unit = unit(plan);
    let scope = if plan.relation() == Relation::User {
        "all its local steps of a round"
    } else {
        "all its views of a step"
    };
    let mut sentences = vec![match split.by_dropout() {
        true => format!(
            "Dropout keeps each node of its layers by an independent fair coin, drawn anew for each {unit} and step, one draw for {scope}, and kept secret; weights of a dropped node get no gradient."
        ),
        false => format!(
            "In each step each {unit} updates one of {}, drawn uniformly for it alone, one draw for {scope}, and kept secret; no split parameter belongs to two submodels of a partition, and those of the other submodels get no gradient.",
            submodels(split)
        ),
    }];
    match (split.by_dropout(), split.is_whole()) {
        (true, true) => sentences.push(
            "Every trained parameter is a weight that touches a node which dropout may drop; biases behind such a node, normalisation and other layers are frozen."
                .to_owned(),
        ),
        (true, false) => sentences.push(
            "The split part holds only weights that touch a node which dropout may drop; biases behind such a node, normalisation and all other layers belong to the rest."
                .to_owned(),
        ),
        (false, _) => {}
    }
    sentences
        .push("Noise is added to every trained parameter, whether a submodel was updated or not.".to_owned());
    sentences
}

fn submodels(split: &Split) -> String {
    match split.partitions() {
        [only] => format!("{} submodels", only.submodels),
        several => {
            let each = |partition: &Partition| {
                format!("{} with probability {}", partition.submodels, partition.probability)
            };
            let list: Vec<String> = several.iter().map(each).collect();
            format!("the submodels of a partition, which is drawn first ({})", list.join(", "))
        }
    }
}

/// What balanced sampling and split models add to the theorem.
pub(super) fn citation(plan: &Plan, best: Option<BalancedBound>) -> String {
    let mut text = String::new();
    if let Some(best) = best {
        text.push_str(&format!("; the best bound is: {}", bound(plan, best)));
    }
    let Some(split) = plan.split() else { return text };
    if !plan.counts_submodels() {
        text.push_str("; that the submodel is hidden is not counted under this relation: whatever the submodel, the contribution has the norm stated (joint convexity)");
        return text;
    }
    text.push_str(if split.by_dropout() {
        "; dropout at one half hides the update in one of two disjoint sets of weights"
    } else {
        "; the update is hidden in one of the submodels"
    });
    text.push_str(" (Dong, Chen and Ozgur 2025, Theorems 3.4 and 3.5, Corollary 3.7), whose likelihood ratio is a mean of log-normals, enclosed in convex order");
    if !split.is_whole() {
        text.push_str("; the rest is a Gaussian beside it, composed with it before sampling because both share one coin");
    }
    text
}

/// The singular of what is drawn.
fn unit(plan: &Plan) -> &'static str {
    units(plan).trim_end_matches('s')
}
