//! Runs that differ in nothing but their seed, taken together.

use super::{MeasuredRun, Method};

/// Runs of one method at one budget.
#[derive(Debug)]
pub struct RunGroup<'a> {
    /// One of them, for what they share.
    pub one: &'a MeasuredRun,
    /// How many there are.
    pub runs: usize,
    /// The mean of their qualities.
    pub mean: f64,
    /// The standard deviation of single runs; there is none for a single run.
    pub deviation: Option<f64>,
}

impl RunGroup<'_> {
    /// What they are compared by.
    pub fn method(&self) -> Method {
        self.one.setting.method
    }

    /// The budget asked for.
    pub fn epsilon(&self) -> Option<f64> {
        self.one.setting.epsilon
    }

    /// The noise multiplier of their steps; there is none without privacy.
    pub fn noise_multiplier(&self) -> Option<f64> {
        self.one.spent.as_ref().map(|spent| spent.noise_multiplier)
    }

    /// The variance of the mean of the group.
    fn variance(&self) -> Option<f64> {
        Some(self.deviation?.powi(2) / self.runs as f64)
    }

    /// How much higher the mean is than another, and the standard error of that.
    pub fn gain_over(&self, other: &Self) -> (f64, Option<f64>) {
        let error = self.variance().zip(other.variance()).map(|(own, other)| (own + other).sqrt());
        (self.mean - other.mean, error)
    }
}

/// Runs by setting, in the order of their first.
pub fn groups(runs: &[MeasuredRun]) -> Vec<RunGroup<'_>> {
    let mut groups: Vec<(&MeasuredRun, Vec<f64>)> = Vec::new();
    for run in runs {
        match groups.iter_mut().find(|(one, _)| one.setting.is_like(&run.setting)) {
            Some((_, qualities)) => qualities.push(run.quality),
            None => groups.push((run, vec![run.quality])),
        }
    }
    let taken = |(one, qualities): (_, Vec<f64>)| {
        let (mean, deviation) = moments(&qualities);
        RunGroup { one, runs: qualities.len(), mean, deviation }
    };
    groups.into_iter().map(taken).collect()
}

/// Mean and, of two or more values, standard deviation.
pub fn moments(values: &[f64]) -> (f64, Option<f64>) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (values.len() > 1).then(|| (squares / (values.len() - 1) as f64).sqrt()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Setting;
    use dapple_train::Measure;

    #[test]
    fn the_deviation_is_that_of_a_sample() {
        assert_eq!(moments(&[0.5]), (0.5, None));
        assert_eq!(moments(&[1.0, 3.0]), (2.0, Some(2.0_f64.sqrt())));
    }

    #[test]
    fn seeds_are_taken_together_and_gains_have_errors() {
        let run = |method, epsilon, seed, quality| MeasuredRun {
            setting: Setting { method, epsilon: Some(epsilon), seed },
            measure: Measure::Accuracy,
            quality,
            spent: None,
            steps: 1,
            lost: 0,
        };
        let runs = [
            run(Method::Patch, 1.0, 1, 0.5),
            run(Method::Record, 1.0, 1, 0.2),
            run(Method::Patch, 1.0, 2, 0.7),
            run(Method::Record, 1.0, 2, 0.2),
            run(Method::Patch, 2.0, 1, 0.9),
        ];
        let groups = groups(&runs);
        let found: Vec<(Method, usize)> = groups.iter().map(|group| (group.method(), group.runs)).collect();
        assert_eq!(found, [(Method::Patch, 2), (Method::Record, 2), (Method::Patch, 1)]);
        let (gain, error) = groups[0].gain_over(&groups[1]);
        // Deviations 0.1 sqrt 2 and 0, each of two runs.
        assert!((gain - 0.4).abs() < 1e-12 && (error.unwrap() - 0.1).abs() < 1e-12);
        assert_eq!(groups[2].gain_over(&groups[1]).1, None);
    }
}
