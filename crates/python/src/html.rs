//! How answers look in a notebook.

use dapple_plan::{Certificate, Plan, number};
use dapple_train::{FederatedCertificate, RunCertificate, Warning};

/// A table of the numbers, with the assumptions folded away.
pub(crate) fn certificate(certificate: &Certificate) -> String {
    let epsilon = number::up(certificate.epsilon.upper, 4);
    let bracket = certificate.epsilon.lower.map_or_else(String::new, |lower| {
        format!(" (certified bracket {} to {epsilon})", number::down(lower, 4))
    });
    let rows = [
        ("epsilon", format!("at most {epsilon}{bracket}")),
        ("delta", number::exact(certificate.delta)),
        ("protects", certificate.protects.clone()),
        ("relation", certificate.relation.to_string()),
        (
            "sampling",
            format!(
                "{}, {} of {} a step",
                certificate.sampling.name(),
                certificate.batch,
                certificate.records
            ),
        ),
        ("a step sees what is protected with probability", number::up(certificate.effective_rate, 4)),
        ("steps", certificate.steps.to_string()),
        ("noise multiplier", certificate.noise_multiplier.to_string()),
        ("accountant", certificate.accountant.name().to_owned()),
        ("plan hash", certificate.plan_hash.clone()),
    ];
    let assumptions: String =
        certificate.assumptions.iter().map(|sentence| format!("<li>{}</li>", escape(sentence))).collect();
    format!(
        "{}<details><summary>What is assumed</summary><ul>{assumptions}</ul></details>",
        table("Certificate", &rows)
    )
}

/// What a plan says, without its price.
pub(crate) fn plan(plan: &Plan) -> String {
    let spatial = plan.spatial();
    let mut rows = vec![
        ("relation", plan.relation().name().to_owned()),
        ("sampling", format!("{}, {} of {} a step", plan.sampling().name(), plan.batch(), plan.records())),
        ("steps", plan.steps().to_string()),
        ("noise multiplier", plan.noise_multiplier().to_string()),
        ("delta", number::exact(plan.delta())),
    ];
    rows.extend(plan.max_grad_norm().map(|norm| ("clip norm", norm.to_string())));
    rows.extend(spatial.image().map(|size| ("image", format!("{}x{}", size.width(), size.height()))));
    rows.extend(spatial.protected().map(|region| ("protected region", region.words())));
    rows.push(("a step sees what is protected with probability", number::up(plan.effective_rate(), 4)));
    rows.push(("plan hash", plan.hash().to_owned()));
    table("Plan", &rows)
}

/// What was solved for, with its certificate.
pub(crate) fn calibration(name: &str, value: String, found: &Certificate) -> String {
    table("Calibration", &[("solved for", name.to_owned()), ("value", value)]) + &certificate(found)
}

/// What a run spent, with the certificate of that folded away.
pub(crate) fn run_certificate(run: &RunCertificate, status: &str) -> String {
    let taken = ("steps that count as taken", run.steps_spent.to_string());
    let rows = vec![("status", status.to_owned()), taken];
    match run.private {
        true => spent("Run", rows, run.spent.as_ref(), &run.warnings),
        false => table("Run", &[rows, vec![("epsilon spent", "nothing is private".to_owned())]].concat()),
    }
}

/// What a federated run spent, with the certificate of that folded away.
pub(crate) fn federated_certificate(run: &FederatedCertificate, status: &str) -> String {
    let rows = vec![
        ("status", status.to_owned()),
        ("rounds that count as taken", run.rounds_spent.to_string()),
        ("clients", format!("{} of {} a round", run.clients_per_round, run.clients)),
        ("trust", run.trust.clone()),
    ];
    spent("Federated run", rows, run.spent.as_ref(), &run.warnings)
}

fn spent(
    caption: &str,
    mut rows: Vec<(&'static str, String)>,
    spent: Option<&Certificate>,
    warnings: &[Warning],
) -> String {
    let epsilon = spent.map_or_else(
        || "0, before the first step".to_owned(),
        |spent| {
            format!("at most {} at delta {}", number::up(spent.epsilon.upper, 4), number::exact(spent.delta))
        },
    );
    rows.push(("epsilon spent", epsilon));
    rows.extend(spent.map(|spent| ("protects", spent.protects.clone())));
    rows.extend(warnings.iter().map(|warning| ("warning", warning.to_string())));
    let details = spent.map_or_else(String::new, |spent| {
        format!("<details><summary>How this was priced</summary>{}</details>", certificate(spent))
    });
    table(caption, &rows) + &details
}

/// A table of names and values.
pub(crate) fn table(caption: &str, rows: &[(&str, String)]) -> String {
    let row = |(name, value): &(&str, String)| {
        format!(
            "<tr><th style=\"text-align:left\">{name}</th><td style=\"text-align:left\">{}</td></tr>",
            escape(value)
        )
    };
    let rows: String = rows.iter().map(row).collect();
    format!("<table><caption>{caption}</caption>{rows}</table>")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
