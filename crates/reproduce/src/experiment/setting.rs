//! One point of an experiment.

use super::Method;

/// A method, a budget and a seed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Setting {
    /// The method that is compared with others.
    pub method: Method,
    /// The budget asked for; there is none without privacy.
    pub epsilon: Option<f64>,
    /// The seed of the initial weights that no file gives.
    pub seed: u64,
}

impl Setting {
    /// Every combination in the order of reading: budgets, methods, seeds. Training without privacy has no budget and comes last.
    pub fn grid(epsilons: &[f64], methods: &[Method], seeds: u64) -> Vec<Self> {
        let private: Vec<Method> =
            methods.iter().copied().filter(|method| method.level().is_some()).collect();
        let budgets =
            epsilons.iter().flat_map(|&epsilon| private.iter().map(move |&method| (method, Some(epsilon))));
        let open = methods.contains(&Method::NonPrivate).then_some((Method::NonPrivate, None));
        budgets
            .chain(open)
            .flat_map(|(method, epsilon)| (1..=seeds).map(move |seed| Self { method, epsilon, seed }))
            .collect()
    }

    /// The name of its run.
    pub fn name(&self) -> String {
        let Self { method, epsilon, seed } = self;
        match epsilon {
            Some(epsilon) => format!("{}-epsilon{epsilon}-{seed}", method.name()),
            None => format!("{}-{seed}", method.name()),
        }
    }

    /// Whether another setting differs in nothing but the seed.
    pub fn is_like(&self, other: &Self) -> bool {
        (self.method, self.epsilon) == (other.method, other.epsilon)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_has_every_combination_once() {
        let methods = [Method::NonPrivate, Method::Record, Method::Patch];
        let names: Vec<String> = Setting::grid(&[1.0, 0.5], &methods, 2).iter().map(Setting::name).collect();
        assert_eq!(
            names,
            [
                "record-epsilon1-1",
                "record-epsilon1-2",
                "patch-epsilon1-1",
                "patch-epsilon1-2",
                "record-epsilon0.5-1",
                "record-epsilon0.5-2",
                "patch-epsilon0.5-1",
                "patch-epsilon0.5-2",
                "non-private-1",
                "non-private-2"
            ]
        );
    }
}
