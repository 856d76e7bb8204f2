//! Attacks that measure how much a plan's training gives away at least: a lower bound on epsilon beside the certified upper one.
//!
//! [`audit`] trains by the plan on made records, among them canaries: for each a coin decides between the two contents that the plan's
//! relation lets an attacker choose between. The attacker sees the weights behind every step and guesses the coins; how often it is
//! right bounds epsilon from below ([`Guesses::lower_bound`], [`Rates::lower_bound`]). The model and the canaries are the worst case that the certificate
//! allows: every canary's gradient is as long as the clip norm, along a direction of its own. Sampler, crops, views, clipping, noise
//! and optimiser are those of every run.
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
mod canaries;
mod error;
mod evidence;
mod guesses;
mod rates;

pub use attack::{Attack, Audit, Options, audit, audit_completed};
pub use canaries::Pattern;
pub use error::AuditError;
pub use guesses::Guesses;
pub use rates::{Dependence, Rates};
