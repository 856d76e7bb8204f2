//! The `masked` relation: private tokens get noise, public tokens need none.

mod claimed;

pub use claimed::claimed_epsilon;

use crate::error::PlanError;
use crate::spec::{Masked, PublicGradient};
use crate::{Relation, Sampling};

/// The largest public clip norm, in private clip norms. Beyond it, public gradients are as good as unclipped.
const MAX_CLIP: f64 = 1e6;

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

    pub(crate) fn check(
        spec: &Masked,
        relation: Relation,
        sampling: Sampling,
    ) -> Result<Option<Self>, PlanError> {
        let meaningless = |key, what: String, hint: &str| {
            Err(PlanError::invalid(
                key,
                format!("has no meaning for {what}"),
                format!("leave it out, or use {hint}"),
            ))
        };
        if relation != Relation::Masked {
            let what = format!("the {relation} relation");
            return match (spec.public_gradient, spec.public_clip) {
                (Some(_), _) => meaningless("masked.public_gradient", what, "--relation masked"),
                (None, Some(_)) => meaningless("masked.public_clip", what, "--relation masked"),
                (None, None) => Ok(None),
            };
        }
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
            (PublicGradient::Decoupled, None) => Ok(Some(Self::Decoupled)),
            (PublicGradient::Coupled, None) => Ok(Some(Self::Coupled)),
            (PublicGradient::CoupledClipped, Some(clip)) if clip > 0.0 && clip <= MAX_CLIP => {
                Ok(Some(Self::CoupledClipped { clip }))
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
            (mode, Some(_)) => meaningless(
                key,
                format!("{} public gradients, which are not clipped", mode.name()),
                "--public-gradient coupled-clipped",
            ),
        }
    }
}
