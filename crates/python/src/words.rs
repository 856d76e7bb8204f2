//! Messages of the command line in Python's words: flags as keyword arguments.

use dapple_plan::spec::keys::{KEYS, Key};

/// Keyword arguments that are flags of single verbs, and no keys of a plan.
const OTHERS: [&str; 4] = ["budget", "epsilon-total", "over", "epsilons"];

/// The text with every flag as a keyword argument: `--per-record` becomes `per_record`, `--views 1` becomes `views=1`, and `--sampling poisson`
/// becomes `sampling="poisson"`.
pub(crate) fn in_python(text: &str) -> String {
    let mut words = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("--") {
        let (before, flag) = rest.split_at(at);
        words.push_str(before);
        let begins =
            before.chars().next_back().is_none_or(|letter| !letter.is_alphanumeric() && letter != '-');
        match begins.then(|| keyword(&flag[2..])).flatten() {
            Some((keyword, length)) => {
                words.push_str(&keyword);
                rest = &flag[2 + length..];
            }
            None => {
                words.push_str("--");
                rest = &flag[2..];
            }
        }
    }
    words + rest
}

/// The keyword of a flag with its value, if one follows, and how many bytes of the text they take.
fn keyword(text: &str) -> Option<(String, usize)> {
    let end = |letter: char| !(letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-');
    let name = &text[..text.find(end).unwrap_or(text.len())];
    let key = KEYS.iter().find(|key| key.flag == Some(name));
    if key.is_none() && !OTHERS.contains(&name) {
        return None;
    }
    let own = name.replace('-', "_");
    let value = text[name.len()..].strip_prefix(' ').map_or("", |after| value(key, after));
    let length = name.len() + if value.is_empty() { 0 } else { 1 + value.len() };
    let written = match value {
        "" => own,
        number if number.parse::<f64>().is_ok() => format!("{own}={number}"),
        word => format!("{own}=\"{word}\""),
    };
    Some((written, length))
}

/// The value that stands behind a flag: a number, a size or one of the key's words.
fn value<'a>(key: Option<&Key>, text: &'a str) -> &'a str {
    let end = |letter: char| !(letter.is_alphanumeric() || matches!(letter, '.' | '-' | '_'));
    let word = text[..text.find(end).unwrap_or(text.len())].trim_end_matches('.');
    let number = word.starts_with(|letter: char| letter.is_ascii_digit());
    let choice = key.is_some_and(|key| key.choices.contains(&word));
    if number || choice { word } else { "" }
}
