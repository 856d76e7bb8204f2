//! What a plan costs, for the page.

use dapple_plan::{
    BracketPrecision, Certificate, CertificateDocument, Plan, PlanError, PlanSpec, Relation, Scheme,
    SolvedUnknown, number,
};
use dapple_report::paint::{method, series_paint};
use serde::Serialize;

use crate::asked::{Asked, Explorer};
use crate::error::ServeError;

/// How narrow brackets are: as on the command line.
pub(crate) fn precision() -> BracketPrecision {
    BracketPrecision::default()
}

/// A plan and its price at each level.
#[derive(Debug, Serialize)]
pub(crate) struct PriceAnswer {
    /// The plan as written, to copy.
    toml: String,
    /// What the controls show.
    values: ControlValues,
    /// What was solved for, if anything was.
    solved: Option<SolvedUnknown>,
    levels: Vec<PricedLevel>,
    rates: PlanRates,
    /// What must hold outside this program.
    assumptions: Vec<String>,
    theorem: String,
    plan_hash: String,
}

/// The price for one relation.
#[derive(Debug, Serialize)]
struct PricedLevel {
    relation: &'static str,
    /// The name of its colour.
    paint: &'static str,
    /// Rounded to the safe side; `None` if it is too large to report.
    epsilon: Option<ShownBracket>,
    protects: String,
    /// Why there is no number.
    problem: Option<String>,
}

/// A bracket as it is shown, and as it is.
#[derive(Debug, Serialize)]
struct ShownBracket {
    upper: f64,
    lower: f64,
    shown: String,
    shown_lower: String,
}

#[derive(Debug, Serialize)]
struct PlanRates {
    sample_rate: f64,
    inclusion_probability: f64,
    effective_rate: f64,
    steps: u64,
    noise_multiplier: f64,
    delta: f64,
    sensitivity: f64,
}

/// What the controls of the page show of a plan.
#[derive(Debug, Serialize)]
struct ControlValues {
    image: Option<[u32; 2]>,
    crop: Option<[u32; 2]>,
    patch: Option<[u32; 2]>,
    records: u64,
    batch: u64,
    epochs: Option<u64>,
    steps: u64,
    delta: f64,
    epsilon: Option<f64>,
    noise_multiplier: f64,
}

/// The answer of `dapple account --json`.
#[derive(Serialize)]
struct AccountAnswer<'a> {
    #[serde(flatten)]
    certificate: CertificateDocument<'a>,
    /// What the plan leaves to its epsilon.
    #[serde(skip_serializing_if = "Option::is_none")]
    solved: Option<SolvedUnknown>,
}

impl Explorer {
    /// Prices a plan as `dapple account --json` does, and answers in the same form.
    pub(crate) fn account(&self, spec: PlanSpec) -> Result<serde_json::Value, ServeError> {
        if spec.train.private == Some(false) {
            return Err(ServeError::Question(
                "the plan trains without privacy, so it has no price".to_owned(),
            ));
        }
        let found = self.settled(self.allowed(spec)?)?;
        let certificate = found.price()?;
        let answer = AccountAnswer { certificate: certificate.document(), solved: found.solved };
        serde_json::to_value(&answer).map_err(|error| ServeError::Question(error.to_string()))
    }

    /// Prices the plan of a question, and the same run at the level of whole records where the plan protects less.
    pub(crate) fn price(&self, asked: &Asked) -> Result<PriceAnswer, ServeError> {
        let found = self.plan(asked)?;
        let certificate = reportable(found.price())?;
        let mut levels = vec![PricedLevel::of(&found.plan, certificate.as_ref())];
        if found.plan.relation() == Relation::Patch {
            let whole = found.plan.at_relation(Relation::Replace);
            levels.push(PricedLevel::of(&whole, reportable(whole.price(precision()))?.as_ref()));
        }
        let (assumptions, theorem) =
            certificate.map(|certificate| (certificate.assumptions, certificate.theorem)).unwrap_or_default();
        let plan = &found.plan;
        Ok(PriceAnswer {
            toml: found.written.to_toml(),
            values: ControlValues::of(&found.settled, plan),
            solved: found.solved,
            levels,
            rates: PlanRates {
                sample_rate: plan.sample_rate(),
                inclusion_probability: plan.inclusion_probability(),
                effective_rate: plan.effective_rate(),
                steps: plan.steps(),
                noise_multiplier: plan.noise_multiplier(),
                delta: plan.delta(),
                sensitivity: plan.sensitivity(),
            },
            assumptions,
            theorem,
            plan_hash: plan.hash().to_owned(),
        })
    }
}

/// A certificate; `None` if epsilon is too large to report.
fn reportable(priced: Result<Certificate, PlanError>) -> Result<Option<Certificate>, PlanError> {
    match priced {
        Ok(certificate) => Ok(Some(certificate)),
        Err(error) if error.is_too_large() => Ok(None),
        Err(error) => Err(error),
    }
}

/// The name of the colour of a level, by which the page's style knows it.
pub(crate) fn level_paint(relation: Relation, sampling: Scheme) -> &'static str {
    series_paint(method::of_level(relation.name(), sampling.name())).name
}

impl PricedLevel {
    fn of(plan: &Plan, certificate: Option<&Certificate>) -> Self {
        let epsilon = certificate.map(|certificate| {
            let (lower, upper) = (certificate.epsilon.least(), certificate.epsilon.upper);
            ShownBracket { upper, lower, shown: number::up(upper, 4), shown_lower: number::down(lower, 4) }
        });
        Self {
            relation: plan.relation().name(),
            paint: level_paint(plan.relation(), plan.sampling().scheme()),
            problem: epsilon.is_none().then(|| "more than can be reported".to_owned()),
            epsilon,
            protects: certificate.map(|certificate| certificate.protects.clone()).unwrap_or_default(),
        }
    }
}

impl ControlValues {
    fn of(spec: &PlanSpec, plan: &Plan) -> Self {
        let pair = |pixels: dapple_plan::spec::Pixels| [pixels.x, pixels.y];
        Self {
            image: spec.pipeline.image.map(pair),
            crop: spec.pipeline.crop.map(pair),
            patch: spec.region.patch.map(pair),
            records: plan.records(),
            batch: plan.batch(),
            epochs: spec.sampling.epochs,
            steps: plan.steps(),
            delta: plan.delta(),
            epsilon: plan.target_epsilon(),
            noise_multiplier: plan.noise_multiplier(),
        }
    }
}
