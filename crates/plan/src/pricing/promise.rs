//! What several runs on the same records protect together.

use dapple_geometry::Mask;
use serde::{Deserialize, Serialize};

use crate::Plan;
use crate::error::PlanError;
use crate::spec::{PlanSpec, RegionSpec};
use crate::{Relation, certificate};

/// A relation under which every run is priced, and for patches the region. A sum of prices means something only if all of them are about
/// the same neighbours.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Promise {
    /// The relation.
    pub relation: Relation,
    /// The protected region; empty under relations other than `patch`.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub region: RegionSpec,
}

fn is_empty(region: &RegionSpec) -> bool {
    *region == RegionSpec::default()
}

impl Promise {
    /// What a plan promises.
    ///
    /// # Errors
    /// A relation under which runs are not composed. Users and private tokens are named by files beside the records, and nothing here
    /// tells whether two runs name the same ones.
    pub fn of(spec: &PlanSpec, plan: &Plan) -> Result<Self, PlanError> {
        let relation = plan.relation();
        let region = match relation {
            Relation::AddRemove | Relation::Replace => RegionSpec::default(),
            Relation::Patch => spec.region.clone(),
            Relation::Masked | Relation::User => return Err(not_composed(relation)),
        };
        Ok(Self { relation, region })
    }

    /// A run, or its first `steps` steps, as a plan under this promise, whatever the run promised by itself; `None` if it has taken no
    /// step. `masks` are the masks that this promise's region names.
    ///
    /// # Guarantee
    /// The plan's price bounds what those steps reveal about neighbours under this promise. A record-level run is priced as if it had
    /// protected the patch, and its own crops decide how often they see it. A patch-level run is priced for whole records, which every
    /// crop sees.
    ///
    /// # Errors
    /// A combination that no theorem covers, by name.
    pub fn restate(
        &self,
        spec: &PlanSpec,
        own_masks: &[Mask],
        masks: &[Mask],
        steps: Option<u64>,
    ) -> Result<Option<Plan>, PlanError> {
        let own = Plan::check_with_masks(spec, own_masks)?;
        if matches!(own.relation(), Relation::Masked | Relation::User) {
            return Err(not_composed(own.relation()));
        }
        let mut spec = spec.clone();
        spec.privacy.relation = Some(self.relation);
        spec.region = self.region.clone();
        Ok(Plan::check_with_masks(&spec, masks)?.first(steps.unwrap_or(u64::MAX)))
    }

    /// What is protected, as a sentence. `plan` may be any run under this promise.
    #[must_use]
    pub fn words(plan: &Plan) -> String {
        certificate::protects(plan)
    }
}

fn not_composed(relation: Relation) -> PlanError {
    PlanError::NoTheorem {
        combination: format!("runs of the {relation} relation in one budget"),
        reason: "whose records, or which tokens, are protected is said beside the records and may differ between runs",
        hint: "keep runs of the add-remove, replace and patch relations in a budget",
    }
}
