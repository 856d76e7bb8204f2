//! What is averaged before clipping: views, mixtures, synthetic images, and the records of a microbatch.

use crate::Relation;
use crate::error::PlanError;
use crate::spec::{Allowance, PlanSpec};

/// The most images beside one record. More are a slip of the pen.
const MAX_IMAGES: u32 = 1 << 16;

/// What a record's contribution averages beside its views, and how many records are clipped together.
///
/// # Guarantee
/// Mixtures and synthetic images do not change the sensitivity: they are averaged with the views of one record, and the average is
/// clipped once (DP-Mix, equation 4). A mixture shows a private region only if one of the record's views does, so the inclusion
/// probability counts only the views. Where several records are clipped together, all of this holds of them together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Averaged {
    /// `K_self`: mixtures of two of a record's own views and synthetic images.
    pub self_mix: u32,
    /// `K_diff`: synthetic images, drawn independently of the data set.
    pub synthetic: u32,
    /// Records averaged and clipped together.
    pub records_per_clip: u64,
}

impl Averaged {
    pub(crate) fn check(
        spec: &PlanSpec,
        relation: Relation,
        views: u32,
        batch: u64,
    ) -> Result<Self, PlanError> {
        let images = |key, count: Option<u32>| match count.unwrap_or(0) {
            count if count > MAX_IMAGES => Err(PlanError::invalid(
                key,
                format!("{count} images beside each record"),
                format!("give at most {MAX_IMAGES}"),
            )),
            count => Ok(count),
        };
        let self_mix = images("mix.self_mix", spec.mix.self_mix)?;
        let synthetic = images("mix.synthetic", spec.mix.synthetic)?;
        let records_per_clip = spec.privacy.records_per_clip.unwrap_or(1);
        if self_mix > 0 && u64::from(views) + u64::from(synthetic) < 2 && records_per_clip < 2 {
            return Err(PlanError::invalid(
                "mix.self_mix",
                "one view alone has nothing to be mixed with",
                "give --views 2 or more, or --synthetic 1 or more",
            ));
        }
        if views == 0 && spec.mix.allow != Some(Allowance::PureSynthetic) {
            return Err(PlanError::invalid(
                "pipeline.views",
                "without views no record is ever shown, and all that is learned comes from synthetic images: epsilon buys nothing",
                "give --views 1 or more, train on the synthetic images without privacy, or give --allow pure-synthetic",
            ));
        }
        if records_per_clip == 0 || records_per_clip > batch {
            return Err(PlanError::invalid(
                "privacy.records_per_clip",
                format!("{records_per_clip} records clipped together, of a batch of {batch}"),
                "give 1, which clips each record by itself, or at most the batch",
            ));
        }
        if records_per_clip > 1 && matches!(relation, Relation::Masked | Relation::User) {
            return Err(PlanError::NoTheorem {
                combination: format!("microbatches under the {relation} relation"),
                reason: "only single contributions are clipped there",
                hint: "use --records-per-clip 1",
            });
        }
        Ok(Self { self_mix, synthetic, records_per_clip })
    }

    /// How many groups the records of a step are clipped in, where several share one clip: as many as make `records_per_clip` records
    /// the mean of a group. A record picks one of them by its own uniform draw.
    pub(crate) fn clip_groups(self, batch: u64) -> Option<u64> {
        self.shares_clip().then(|| batch.div_ceil(self.records_per_clip))
    }

    /// Whether several records share one clip.
    #[must_use]
    pub fn shares_clip(self) -> bool {
        self.records_per_clip > 1
    }
}
