//! How a certificate looks in a notebook.

use dapple_plan::{Certificate, number};

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
    let row = |(name, value): &(&str, String)| {
        format!(
            "<tr><th style=\"text-align:left\">{name}</th><td style=\"text-align:left\">{}</td></tr>",
            escape(value)
        )
    };
    let rows: String = rows.iter().map(row).collect();
    let assumptions: String =
        certificate.assumptions.iter().map(|sentence| format!("<li>{}</li>", escape(sentence))).collect();
    format!(
        "<table><caption>Certificate</caption>{rows}</table><details><summary>What is assumed</summary><ul>{assumptions}</ul></details>"
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
