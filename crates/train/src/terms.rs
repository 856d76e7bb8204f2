//! What a plan costs, and what the steps taken so far cost.

use dapple_plan::{
    Bracket, BracketPrecision, Certificate, ClipLayout, DataPlan, Plan, Protected, RecordOrigin, Relation,
    StoredFormat, TrainingPlan,
};

use crate::error::TrainError;

/// The price of a plan. What a run makes public about its records, beside what the plan says, is added to the assumptions.
pub(crate) fn price(plan: &Plan, data: &DataPlan) -> Result<Certificate, TrainError> {
    let mut certificate = plan.price(BracketPrecision::default())?;
    certificate.assumptions.extend(public_facts(data).map(str::to_owned));
    if data.users.is_some() {
        certificate.assumptions.push(
            "Each record belongs to the one user that the file of users names; a person under two names is two users.".to_owned(),
        );
    }
    let moves = |protected: &Protected| protected.travel().is_some();
    if plan.relation() == Relation::Patch
        && data.origin.is_of_clips()
        && !plan.spatial().protected().is_some_and(moves)
    {
        certificate.assumptions.push(
            "A record is a clip, and what is protected lies at one place in all its frames; region.travel prices what moves."
                .to_owned(),
        );
    }
    Ok(certificate)
}

/// What the shape of the released model tells about the records.
fn public_facts(data: &DataPlan) -> Option<&'static str> {
    let RecordOrigin::Stored { format, .. } = &data.origin else { return None };
    match format {
        StoredFormat::Idx | StoredFormat::Npy | StoredFormat::ArrayShards if data.classes.is_none() => Some(
            "The number of classes was counted from the training labels and is taken as public; with data.classes in the plan it does not depend on them.",
        ),
        StoredFormat::Clips { layout: ClipLayout::ToyotaSmarthome(_), .. } => Some(
            "Number and names of the classes are those in the names of the data set's files and are taken as public.",
        ),
        StoredFormat::ImageFolder | StoredFormat::Clips { layout: ClipLayout::Folder, .. } => Some(
            "Number and names of the classes are those of the training data's folders and are taken as public.",
        ),
        StoredFormat::ImageList | StoredFormat::ImageShards | StoredFormat::ClipShards { .. } => Some(
            "Number and names of the classes are those of the training data's list and are taken as public.",
        ),
        _ => None,
    }
}

/// A checked plan and its price: everything that epsilon depends on beside the number of steps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms<'a> {
    pub(crate) training: &'a TrainingPlan,
    /// The price of the whole plan; `None` without privacy.
    pub(crate) planned: Option<&'a Certificate>,
}

/// What some steps cost.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cost {
    pub(crate) steps: u64,
    /// The price of these steps; `None` if there are none, and without privacy.
    pub(crate) price: Option<Certificate>,
    /// Epsilon if a whole record is substituted, where the plan protects less than that; `None` if it is too large to report.
    pub(crate) whole_record: Option<Bracket>,
}

impl Terms<'_> {
    /// The part of the plan that is priced.
    pub(crate) fn plan(&self) -> &Plan {
        &self.training.privacy
    }

    pub(crate) fn private(&self) -> bool {
        self.planned.is_some()
    }

    /// The price of the first `steps` steps of the plan; `None` for no steps, and without privacy.
    ///
    /// # Guarantee
    /// The certificate holds for everything that these steps release. Balanced sampling decides at the start which steps a record joins,
    /// so its first step costs as much as all.
    pub(crate) fn price(&self, steps: u64) -> Result<Option<Certificate>, TrainError> {
        let Some(planned) = self.planned.filter(|_| steps > 0) else { return Ok(None) };
        match self.plan().first(steps).filter(|first| first.steps() < self.plan().steps()) {
            None => Ok(Some(planned.clone())),
            Some(first) => Ok(Some(price(&first, &self.training.data)?)),
        }
    }

    /// What the first `steps` steps cost, at the plan's own level and at that of whole records.
    pub(crate) fn cost(&self, steps: u64) -> Result<Cost, TrainError> {
        let price = self.price(steps)?;
        let whole_record = match (&price, self.protects_less_than_records()) {
            (Some(_), true) => {
                let first = self.plan().first(steps).map(|plan| plan.at_relation(Relation::Replace));
                first.and_then(|plan| plan.price(BracketPrecision::default()).ok()).map(|price| price.epsilon)
            }
            _ => None,
        };
        Ok(Cost { steps, price, whole_record })
    }

    /// Whether the plan protects less than a record, and a whole one at a price of its own. Under the masked relation a whole record has
    /// no guarantee at any price.
    pub(crate) fn protects_less_than_records(&self) -> bool {
        self.plan().relation() == Relation::Patch
    }
}
