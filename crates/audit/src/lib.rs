//! Attacks that measure how much a plan's training gives away at the least: a lower bound on epsilon beside the certified upper one.
//!
//! [`audit`] trains by the plan on made-up records with canaries among them. For each canary a coin decides between two contents that are
//! neighbours under the plan's relation. The attacker sees the weights after every step and guesses the coins. How often it is right
//! bounds epsilon from below ([`Guesses::lower_bound`], [`Rates::lower_bound`]). The model and the canaries are the worst case that the
//! certificate allows: every canary's gradient is as long as the clip norm, along a direction of its own. Sampler, crops, views,
//! clipping, noise and optimiser are those of every run.
//!
//! ```
//! use dapple_audit::{Options, audit};
//! use dapple_plan::PlanSpec;
//! use dapple_train::Request;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let spec = PlanSpec::from_toml(
//!     r#"
//!     [privacy]
//!     noise_multiplier = 1.0
//!     delta = 1e-5
//!     [sampling]
//!     batch = 20
//!     records = 100
//!     steps = 5
//!     "#,
//! )?;
//! let request = Request { spec, base: ".".into(), masks: Vec::new() };
//! let audit = audit(&request, &Options::default(), &mut |_, _| {})?;
//! assert!(audit.epsilon_lower_bound <= audit.epsilon_certified);
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod attack;
mod binomial;
mod blocks;
mod canaries;
mod curve;
mod error;
mod evidence;
mod guesses;
mod rates;

pub use attack::{Attack, Audit, Options, RefutedCurve, audit, audit_completed};
pub use canaries::Pattern;
pub use error::AuditError;
pub use guesses::Guesses;
pub use rates::{Dependence, Rates};
