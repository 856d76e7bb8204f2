//! How users train in a round.

use crate::error::PlanError;
use crate::spec::keys::KEYS;
use crate::spec::{PlanSpec, UserSpec};
use crate::{Plan, Relation};

/// The most steps that a user takes in a round.
const MOST_STEPS: u64 = 100_000;

/// How a user turns its records into an update; a checked value. Nothing of it changes epsilon: whatever a user computes, its update is clipped
/// as a whole.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UserPlan {
    /// Steps that a user takes from the round's weights.
    pub local_steps: u64,
    /// Their learning rate; `None` for one step, whose update is the mean gradient of the records it sees.
    pub local_learning_rate: Option<f64>,
    /// The records that each of them sees; `None` for all that the round sees of the user.
    pub local_batch: Option<u64>,
}

impl UserPlan {
    /// Checks what training needs of a plan of the `user` relation; `None` under other relations.
    ///
    /// # Errors
    /// A key that has no meaning for the relation, a missing file of users, and numbers that make no sense.
    pub fn check(privacy: &Plan, spec: &PlanSpec) -> Result<Option<Self>, PlanError> {
        if privacy.relation() != Relation::User {
            return no_users(privacy, spec);
        }
        if spec.data.users.is_none() && spec.data.format.is_some() {
            let why = "the user relation needs to know whose records are whose";
            return Err(PlanError::Missing { key: "data.users", why });
        }
        let UserSpec { local_steps, local_learning_rate, local_batch, .. } = spec.user;
        let local_steps = local_steps.unwrap_or(1);
        let refuse = |key, problem: String, hint: &str| Err(PlanError::invalid(key, problem, hint));
        if !(1..=MOST_STEPS).contains(&local_steps) {
            let problem = format!("{local_steps} steps are outside [1, {MOST_STEPS}]");
            return refuse(
                "user.local_steps",
                problem,
                "give at least 1, whose update is the gradient itself",
            );
        }
        match (local_steps, local_learning_rate) {
            (1, Some(_)) => {
                let problem = "a single step sends its gradient, which has no learning rate".to_owned();
                return refuse(
                    "user.local_learning_rate",
                    problem,
                    "leave it out: optimiser.learning_rate moves the weights; or give user.local_steps of 2 and more",
                );
            }
            (1, None) => {}
            (_, None) => {
                let why = "several local steps move a user's own weights by it";
                return Err(PlanError::Missing { key: "user.local_learning_rate", why });
            }
            (_, Some(rate)) if !(rate > 0.0 && rate <= f64::from(f32::MAX)) => {
                let problem = format!("{rate} is not a positive number");
                return refuse("user.local_learning_rate", problem, "give a positive number, e.g. 0.05");
            }
            (_, Some(_)) => {}
        }
        if local_batch == Some(0) {
            let problem = "0 records".to_owned();
            return refuse("user.local_batch", problem, "give at least 1, or leave it out for all of them");
        }
        Ok(Some(Self { local_steps, local_learning_rate, local_batch }))
    }
}

/// Refuses what is said about users where there are none.
fn no_users(privacy: &Plan, spec: &PlanSpec) -> Result<Option<UserPlan>, PlanError> {
    let of_users = KEYS.iter().filter(|key| key.path == "data.users" || key.section() == "user");
    match of_users.into_iter().find(|key| spec.gives(key)) {
        Some(key) => Err(PlanError::invalid(
            key.path,
            format!("has no meaning for the {} relation", privacy.relation()),
            "leave it out, or use --relation user",
        )),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TrainingPlan;

    const PLAN: &str = "[privacy]\nrelation = 'user'\nnoise_multiplier = 1.0\ndelta = 1e-5\n\
        [sampling]\nbatch = 10\nrecords = 100\nsteps = 20\n\
        [data]\nformat = 'image-folder'\ntrain = 'photos'\nusers = 'users.csv'\n\
        [model]\nname = 'linear'\n[optimiser]\nlearning_rate = 0.1\n";

    fn checked(changes: &[(&str, &str)]) -> Result<TrainingPlan, PlanError> {
        let mut spec = PlanSpec::from_toml(PLAN).unwrap();
        for (key, value) in changes {
            spec.set(key, value).unwrap();
        }
        TrainingPlan::new(Plan::check(&spec)?, &spec)
    }

    #[test]
    fn defaults_are_filled_in() {
        let plan = checked(&[]).unwrap();
        let one = UserPlan { local_steps: 1, local_learning_rate: None, local_batch: None };
        assert_eq!(plan.users, Some(one));
        let several =
            [("user.local_steps", "3"), ("user.local_learning_rate", "0.05"), ("user.max_records", "4")];
        let plan = checked(&several).unwrap();
        assert_eq!(plan.users, Some(UserPlan { local_steps: 3, local_learning_rate: Some(0.05), ..one }));
        assert_eq!(plan.data.users.unwrap().max_records, Some(4));
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_its_key() {
        let record = ("privacy.relation", "add-remove");
        for (changes, key) in [
            (&[record][..], "data.users"),
            (&[("user.local_steps", "0")], "user.local_steps"),
            (&[("user.local_steps", "2")], "user.local_learning_rate"),
            (&[("user.local_learning_rate", "0.1")], "user.local_learning_rate"),
            (&[("user.local_steps", "2"), ("user.local_learning_rate", "nan")], "user.local_learning_rate"),
            (&[("user.local_batch", "0")], "user.local_batch"),
            (&[("user.max_records", "0")], "`user.max_records`"),
        ] {
            let error = checked(changes).unwrap_err();
            assert!(error.to_string().starts_with(key) && error.hint().is_some(), "{changes:?}: {error}");
        }
        let mut spec = PlanSpec::from_toml(PLAN).unwrap();
        (spec.data.users, spec.privacy.relation) = (None, None);
        spec.set("user.local_steps", "2").unwrap();
        let error = TrainingPlan::new(Plan::check(&spec).unwrap(), &spec).unwrap_err();
        assert!(error.to_string().starts_with("user.local_steps"), "{error}");
        spec.privacy.relation = Some(Relation::User);
        let error = TrainingPlan::new(Plan::check(&spec).unwrap(), &spec).unwrap_err();
        assert!(error.to_string().starts_with("data.users"), "{error}");
    }
}
