//! The `masked` relation: private tokens get noise, public tokens need none.

mod claimed;

pub use claimed::claimed_epsilon;

use crate::error::PlanError;
use crate::spec::{Masked, MaskedContent, PublicGradient};
use crate::{Relation, Sampling};

/// The largest public clip norm, in private clip norms. Beyond it, public gradients are as good as unclipped.
const MAX_CLIP: f64 = 1e6;

/// What is private under the `masked` relation, and what public tokens do; a checked value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MaskedTokens {
    /// How private tokens of neighbours differ.
    pub content: MaskedContent,
    /// Where the gradient of public tokens comes from.
    pub public: PublicTokens,
}

impl MaskedTokens {
    /// Checks the `[masked]` section; `None` under other relations.
    pub(crate) fn check(
        spec: &Masked,
        relation: Relation,
        sampling: Sampling,
    ) -> Result<Option<Self>, PlanError> {
        if relation == Relation::Masked {
            let content = spec.content.unwrap_or(MaskedContent::Substitute);
            return Ok(Some(Self { content, public: PublicTokens::check(spec, sampling)? }));
        }
        let given = [
            ("masked.content", spec.content.is_some()),
            ("masked.public_gradient", spec.public_gradient.is_some()),
            ("masked.public_clip", spec.public_clip.is_some()),
            ("masked.pass", spec.pass.is_some()),
            ("masked.public_weight", spec.public_weight.is_some()),
        ];
        match given.iter().find(|(_, given)| *given) {
            Some((key, _)) => Err(meaningless(key, &format!("the {relation} relation"), "--relation masked")),
            None => Ok(None),
        }
    }

    /// Whether a neighbour's record has no private gradient, and nothing else in the sums tells of the record.
    pub(crate) fn removes_all(self) -> bool {
        self.content == MaskedContent::Remove && self.public == PublicTokens::Decoupled
    }
}

fn meaningless(key: &'static str, what: &str, hint: &str) -> PlanError {
    PlanError::invalid(key, format!("has no meaning for {what}"), format!("leave it out, or use {hint}"))
}

/// Where the gradient of the public tokens comes from; a checked value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PublicTokens {
    /// A batch of public tokens drawn independently of the private one.
    Decoupled,
    /// The sampled records themselves, each clipped to this many private clip norms.
    CoupledClipped {
        /// The clip norm of a record's public gradient over that of its private one.
        clip: f64,
    },
    /// The sampled records themselves, not clipped: Algorithm 1 of the masked paper.
    Coupled,
}

impl PublicTokens {
    /// The mode in files and flags.
    #[must_use]
    pub fn mode(self) -> PublicGradient {
        match self {
            Self::Decoupled => PublicGradient::Decoupled,
            Self::CoupledClipped { .. } => PublicGradient::CoupledClipped,
            Self::Coupled => PublicGradient::Coupled,
        }
    }

    /// `Cu`: how far the public tokens of one sampled record move the sum, in private clip norms.
    #[must_use]
    pub fn reach(self) -> f64 {
        match self {
            Self::Decoupled => 0.0,
            Self::CoupledClipped { clip } => clip,
            Self::Coupled => f64::INFINITY,
        }
    }

    fn check(spec: &Masked, sampling: Sampling) -> Result<Self, PlanError> {
        let coupled = !matches!(spec.public_gradient, None | Some(PublicGradient::Decoupled));
        if coupled && matches!(sampling, Sampling::Balanced { .. }) {
            return Err(PlanError::NoTheorem {
                combination: "public gradients of the sampled records with balanced sampling".to_owned(),
                reason: "they tell of the steps that a record joins, which the price there must keep hidden",
                hint: "use --public-gradient decoupled, or --sampling poisson",
            });
        }
        let key = "masked.public_clip";
        match (spec.public_gradient.unwrap_or(PublicGradient::Decoupled), spec.public_clip) {
            (PublicGradient::Decoupled, None) => Ok(Self::Decoupled),
            (PublicGradient::Coupled, None) => Ok(Self::Coupled),
            (PublicGradient::CoupledClipped, Some(clip)) if clip > 0.0 && clip <= MAX_CLIP => {
                Ok(Self::CoupledClipped { clip })
            }
            (PublicGradient::CoupledClipped, Some(clip)) => Err(PlanError::invalid(
                key,
                format!("{clip} is outside (0, 1e6]"),
                "give the public clip norm in units of the private one, e.g. 1",
            )),
            (PublicGradient::CoupledClipped, None) => Err(PlanError::Missing {
                key,
                why: "coupled-clipped clips the gradient of each record's public tokens",
            }),
            (mode, Some(_)) => Err(meaningless(
                key,
                &format!("{} public gradients, which are not clipped", mode.name()),
                "--public-gradient coupled-clipped",
            )),
        }
    }
}
