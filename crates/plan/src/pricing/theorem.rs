//! Which theorem prices a relation under a sampling scheme.

use crate::error::PlanError;
use crate::spec::MaskedContent;
use crate::{MaskedTokens, Relation, Sampling};

/// The theorem that prices a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Theorem {
    /// Poisson sampling, one record more or less.
    PoissonAddRemove,
    /// Poisson sampling, one record substituted.
    PoissonReplace,
    /// Poisson sampling, one region of one image substituted.
    PoissonPatch,
    /// A subset of fixed size, one record substituted.
    WithoutReplacementReplace,
    /// A subset of fixed size, one region of one image substituted.
    WithoutReplacementPatch,
    /// Poisson sampling, the private tokens of one record substituted.
    PoissonMasked,
    /// A subset of fixed size, the private tokens of one record substituted.
    WithoutReplacementMasked,
    /// Poisson sampling, the private tokens of one record there or not.
    PoissonTokens,
    /// A subset of fixed size, the private tokens of one record there or not.
    WithoutReplacementTokens,
    /// A fixed number of steps for each record, the private tokens of one record there or not.
    BalancedTokens { per_record: u64, epoch_steps: u64 },
    /// Poisson sampling of users, one user more or less.
    PoissonUser,
    /// A fixed number of steps for each record, one record more or less.
    BalancedAddRemove { per_record: u64, epoch_steps: u64 },
    /// A fixed number of steps for each record, something of one record substituted.
    BalancedSubstitution,
    /// A fixed number of rounds for each user, one user more or less.
    BalancedUser { per_record: u64, epoch_steps: u64 },
}

/// The theorem for a relation, where tokens are private for what their content is, and a sampling scheme.
pub(crate) fn theorem(
    relation: Relation,
    masked: Option<MaskedTokens>,
    sampling: Sampling,
) -> Result<Theorem, PlanError> {
    let removed = masked.is_some_and(|tokens| tokens.content == MaskedContent::Remove);
    let none = |reason, hint| {
        let combination = format!("the {relation} relation with {sampling} sampling");
        Err(PlanError::NoTheorem { combination, reason, hint })
    };
    match (relation, sampling) {
        (Relation::AddRemove, Sampling::Poisson) => Ok(Theorem::PoissonAddRemove),
        (Relation::Replace, Sampling::Poisson) => Ok(Theorem::PoissonReplace),
        (Relation::Patch, Sampling::Poisson) => Ok(Theorem::PoissonPatch),
        (Relation::Replace, Sampling::WithoutReplacement) => Ok(Theorem::WithoutReplacementReplace),
        (Relation::Patch, Sampling::WithoutReplacement) => Ok(Theorem::WithoutReplacementPatch),
        (Relation::Masked, Sampling::Poisson) if removed => Ok(Theorem::PoissonTokens),
        (Relation::Masked, Sampling::WithoutReplacement) if removed => Ok(Theorem::WithoutReplacementTokens),
        (Relation::Masked, Sampling::Balanced { per_record, epoch_steps }) if removed => {
            Ok(Theorem::BalancedTokens { per_record, epoch_steps })
        }
        (Relation::Masked, Sampling::Poisson) => Ok(Theorem::PoissonMasked),
        (Relation::Masked, Sampling::WithoutReplacement) => Ok(Theorem::WithoutReplacementMasked),
        (Relation::User, Sampling::Poisson) => Ok(Theorem::PoissonUser),
        (Relation::AddRemove, Sampling::Balanced { per_record, epoch_steps }) => {
            Ok(Theorem::BalancedAddRemove { per_record, epoch_steps })
        }
        (Relation::User, Sampling::Balanced { per_record, epoch_steps }) => {
            Ok(Theorem::BalancedUser { per_record, epoch_steps })
        }
        (Relation::AddRemove, Sampling::WithoutReplacement) => none(
            "a batch of fixed size tells how many records there are, so neighbours must have equally many",
            "use --relation replace, or --sampling poisson",
        ),
        (Relation::User, Sampling::WithoutReplacement) => none(
            "a round of fixed size tells how many users there are, so neighbours must have equally many",
            "use --sampling poisson, or make each user's data one record and use --relation replace",
        ),
        (Relation::Replace | Relation::Patch | Relation::Masked, Sampling::Balanced { .. }) => {
            Ok(Theorem::BalancedSubstitution)
        }
    }
}

impl Theorem {
    /// The source of the theorem, for a reader who wants to check it.
    pub(crate) fn citation(self) -> &'static str {
        match self {
            Self::PoissonAddRemove => {
                "Poisson-sampled Gaussian mechanism under add/remove, both directions (Zhu, Dong and Wang 2022, Theorem 11), composed as dominating pairs (Theorem 10)"
            }
            Self::PoissonReplace => {
                "amplification by Poisson sampling under substitution: the pair (1-g) N(0) + g N(1) against (1-g) N(0) + g N(-1), by advanced joint convexity (Balle, Barthe and Gaboardi 2018) and the Neyman-Pearson lemma, composed as two-sided dominating pairs (Zhu, Dong and Wang 2022)"
            }
            Self::PoissonPatch => {
                "amplification by Poisson sampling and random crops: the pair (1-g) N(0) + g(1-c) N(-1) + gc N(1) against (1-g) N(0) + g N(-1), by advanced joint convexity and the Neyman-Pearson lemma, composed as two-sided dominating pairs; the inclusion probability c is that of patch-level differential privacy by random crops, Theorem 1"
            }
            Self::WithoutReplacementReplace => {
                "amplification by sampling without replacement under substitution (Balle, Barthe and Gaboardi 2018), composed as two-sided dominating pairs (Zhu, Dong and Wang 2022)"
            }
            Self::PoissonMasked => {
                "amplification by Poisson sampling under substitution of private tokens: the pair (1-g) N(-d0) + g N(0) against (1-g) N(-d0) + g N(-2), where d0 = 1 + Cu is how far a sampled record lies from an absent one and Cu bounds its public gradient (0 if that comes from an independent batch, infinite if it is not clipped), by advanced joint convexity and the Neyman-Pearson lemma, composed as two-sided dominating pairs (Zhu, Dong and Wang 2022)"
            }
            Self::WithoutReplacementMasked => {
                "amplification by sampling without replacement under substitution of private tokens: the pair (1-g) N(-d0) + g N(0) against (1-g) N(-d0) + g N(-2), where d0 = 2 + 2 Cu is how far a sampled record lies from the one drawn in its place and Cu bounds a record's public gradient (0 if that comes from an independent batch, infinite if it is not clipped), by advanced joint convexity and the Neyman-Pearson lemma, composed as two-sided dominating pairs (Zhu, Dong and Wang 2022)"
            }
            Self::PoissonTokens => {
                "Poisson-sampled Gaussian mechanism with the private gradient of one record there or not, both directions (Zhu, Dong and Wang 2022, Theorem 11); where the public gradient of the same record is in the sum too, amplification by Poisson sampling with the pair (1-g) N(-d0) + g N(0) against (1-g) N(-d0) + g N(-1), where d0 = 1 + Cu is how far a sampled record lies from an absent one and Cu bounds its public gradient (infinite if that is not clipped), by advanced joint convexity (Balle, Barthe and Gaboardi 2018) and the Neyman-Pearson lemma; composed as dominating pairs (Zhu, Dong and Wang 2022, Theorem 10)"
            }
            Self::WithoutReplacementTokens => {
                "amplification by sampling without replacement with the private gradient of one record there or not: the pair (1-g) N(-d0) + g N(0) against (1-g) N(-d0) + g N(-1), where d0 = 2 + 2 Cu is how far a sampled record lies from the one drawn in its place and Cu bounds a record's public gradient (0 if that comes from an independent batch, infinite if it is not clipped), by advanced joint convexity (Balle, Barthe and Gaboardi 2018) and the Neyman-Pearson lemma, composed as two-sided dominating pairs (Zhu, Dong and Wang 2022)"
            }
            Self::BalancedTokens { .. } => {
                "balanced iteration subsampling with the private gradient of one record there or not, both directions (Dong, Chen and Ozgur 2025, Theorem 3.8; Feldman and Shenfeld 2025): k Gaussians hidden among the T steps of an epoch against none"
            }
            Self::PoissonUser => {
                "Poisson-sampled Gaussian mechanism under adding or removing a user, both directions (Zhu, Dong and Wang 2022, Theorem 11; user-level sampling as McMahan, Ramage, Talwar and Zhang 2018), composed as dominating pairs (Theorem 10)"
            }
            Self::WithoutReplacementPatch => {
                "amplification by sampling without replacement and random crops (patch-level differential privacy by random crops, Theorem 2, effective rate g c), composed as two-sided dominating pairs (Zhu, Dong and Wang 2022)"
            }
            Self::BalancedAddRemove { .. } => {
                "balanced iteration subsampling under add/remove, both directions (Dong, Chen and Ozgur 2025, Theorem 3.8; Feldman and Shenfeld 2025): k Gaussians hidden among the T steps of an epoch against none"
            }
            Self::BalancedSubstitution => {
                "the better of two bounds on a substitution under balanced iteration subsampling: removal of the record's contributions and addition of others in their place, joined by P - e^(e1+e2) Q = (P - e^e1 M) + e^e1 (M - e^e2 Q), each under add/remove (Dong, Chen and Ozgur 2025, Theorem 3.8; Feldman and Shenfeld 2025); or the steps that the record joins taken as known (joint convexity), in each of which a crop misses what is protected with probability 1-c: the pair (1-c) N(-2) + c N(0) against N(-2), by advanced joint convexity (Balle, Barthe and Gaboardi 2018), composed as two-sided dominating pairs (Zhu, Dong and Wang 2022); only the second counts crops"
            }
            Self::BalancedUser { .. } => {
                "balanced iteration subsampling of users under adding or removing a user, both directions (Dong, Chen and Ozgur 2025, Theorem 3.8, with clients in the place of samples; Feldman and Shenfeld 2025): k Gaussians hidden among the T rounds of an epoch against none"
            }
        }
    }
}
