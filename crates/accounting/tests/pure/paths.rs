//! The paths that a source text names, those of `use` trees written out.

/// Every path of two names or more, and every one that `use` or `extern crate` brings in: `use a::{b, c as d}` names `a::b` and `a::c`.
/// Comments and literals name nothing.
pub(crate) fn paths(source: &str) -> Vec<Vec<String>> {
    let tokens = tokens(source);
    let mut found = Vec::new();
    let mut rest = &tokens[..];
    while let Some((first, after)) = rest.split_first() {
        let next = after.first().map_or("", String::as_str);
        // `use<'a>` captures lifetimes and imports nothing.
        if first == "use" && next != "<" {
            rest = tree(after, &[], &mut found);
        } else if first == "extern" && next == "crate" {
            rest = tree(&after[1..], &[], &mut found);
        } else if is_name(first) {
            let (path, after) = path(rest);
            found.extend((path.len() > 1).then_some(path));
            rest = after;
        } else {
            rest = after;
        }
    }
    found
}

fn is_name(token: &str) -> bool {
    token.starts_with(|letter: char| letter.is_alphabetic() || letter == '_')
}

/// Names with `::` between them, and what follows.
fn path(tokens: &[String]) -> (Vec<String>, &[String]) {
    let mut names = vec![tokens[0].clone()];
    let mut rest = &tokens[1..];
    while let [colons, name, after @ ..] = rest
        && colons == "::"
        && is_name(name)
    {
        names.push(name.clone());
        rest = after;
    }
    (names, rest)
}

/// One tree of `use`, up to the comma, brace or semicolon behind it.
fn tree<'a>(tokens: &'a [String], stem: &[String], found: &mut Vec<Vec<String>>) -> &'a [String] {
    let mut names = stem.to_vec();
    let mut rest = tokens;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match first.as_str() {
            "::" => {}
            "{" => {
                while rest.first().is_some_and(|next| next != "}") {
                    rest = tree(rest, &names, found);
                    rest = rest.strip_prefix(&[",".to_owned()]).unwrap_or(rest);
                }
                return rest.get(1..).unwrap_or_default();
            }
            "as" => rest = rest.get(1..).unwrap_or_default(),
            "," | "}" | ";" => {
                rest = &tokens[tokens.len() - rest.len() - 1..];
                break;
            }
            name => names.push(name.to_owned()),
        }
    }
    found.push(names);
    rest
}

/// Names, `::` and single signs.
fn tokens(source: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let length = skipped(rest);
        if length > 0 {
            rest = &rest[length..];
            continue;
        }
        let name = |letter: char| letter.is_alphanumeric() || letter == '_';
        let length = match first {
            _ if name(first) => rest.find(|letter| !name(letter)).unwrap_or(rest.len()),
            ':' if rest.starts_with("::") => 2,
            _ => first.len_utf8(),
        };
        tokens.push(rest[..length].to_owned());
        rest = &rest[length..];
    }
    tokens
}

/// How many bytes at the beginning are a space, a comment or a literal.
fn skipped(rest: &str) -> usize {
    let first = rest.chars().next().unwrap_or_default();
    let raw = rest.trim_start_matches(['b', 'c']).strip_prefix('r').map(|text| text.trim_start_matches('#'));
    if first.is_whitespace() {
        first.len_utf8()
    } else if rest.starts_with("//") {
        rest.find('\n').unwrap_or(rest.len())
    } else if rest.starts_with("/*") {
        comment(rest)
    } else if let Some(body) = raw.and_then(|text| text.strip_prefix('"'))
        && rest.len() - body.len() < 12
    {
        let hashes = rest[..rest.len() - body.len()].matches('#').count();
        let end = format!("\"{}", "#".repeat(hashes));
        body.find(&end).map_or(rest.len(), |place| rest.len() - body.len() + place + end.len())
    } else if let Some(body) = rest.trim_start_matches(['b', 'c']).strip_prefix('"')
        && rest.len() - body.len() < 3
    {
        rest.len() - body.len() + quoted(body, '"')
    } else if let Some(body) = rest.strip_prefix('\'')
        // A letter in quotes; otherwise a lifetime, of which the sign alone is passed over.
        && (body.starts_with('\\') || body.chars().nth(1) == Some('\''))
    {
        1 + quoted(body, '\'')
    } else {
        usize::from(first == '\'')
    }
}

/// The length of a literal behind its first quote, with the last one.
fn quoted(body: &str, quote: char) -> usize {
    let mut escaped = false;
    let end = body.char_indices().find(|&(_, letter)| {
        let ends = letter == quote && !escaped;
        escaped = letter == '\\' && !escaped;
        ends
    });
    end.map_or(body.len(), |(place, _)| place + 1)
}

/// The length of a comment that may hold others.
fn comment(rest: &str) -> usize {
    let (mut depth, mut place) = (0, 0);
    while place < rest.len() {
        let here = &rest[place..];
        place += if here.starts_with("/*") {
            depth += 1;
            2
        } else if here.starts_with("*/") {
            depth -= 1;
            2
        } else {
            here.chars().next().map_or(1, char::len_utf8)
        };
        if depth == 0 {
            break;
        }
    }
    place
}
