//! How answers look in a notebook.

use dapple_plan::{Certificate, number};
use dapple_train::RunCertificate;

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

/// What a run spent, with the certificate of that folded away.
pub(crate) fn run_certificate(run: &RunCertificate, status: &str) -> String {
    let spent = run.spent.as_ref();
    let epsilon = match (run.private, spent) {
        (false, _) => "nothing is private".to_owned(),
        (true, None) => "0, before the first step".to_owned(),
        (true, Some(spent)) => {
            format!("at most {} at delta {}", number::up(spent.epsilon.upper, 4), number::exact(spent.delta))
        }
    };
    let mut rows = vec![
        ("status", status.to_owned()),
        ("steps that count as taken", run.steps_spent.to_string()),
        ("epsilon spent", epsilon),
    ];
    rows.extend(spent.map(|spent| ("protects", spent.protects.clone())));
    rows.extend(run.warnings.iter().map(|warning| ("warning", warning.to_string())));
    let details = spent.map_or_else(String::new, |spent| {
        format!("<details><summary>How this was priced</summary>{}</details>", certificate(spent))
    });
    table("Run", &rows) + &details
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
