//! Text that comes from outside, made safe for XML and HTML.

/// Replaces what no reader should get: control characters and line breaks become spaces, code points that
/// XML forbids and marks that reorder text (they can make a line read as another) disappear.
pub(crate) fn clean(text: &str) -> String {
    text.chars()
        .filter_map(|c| match c {
            '\u{FFFE}' | '\u{FFFF}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' => None,
            c if c.is_control() => Some(' '),
            c => Some(c),
        })
        .collect()
}

/// Escapes cleaned text for element content and for attributes in either kind of quotes.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in clean(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_becomes_inert() {
        assert_eq!(escape("<script>alert('1')</script>"), "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;");
        assert_eq!(escape("a & b \"c\""), "a &amp; b &quot;c&quot;");
        assert_eq!(escape("a\0b\u{1b}[31m\n"), "a b [31m ");
        assert_eq!(escape("\u{202E}abc\u{FFFF}"), "abc");
    }

    #[test]
    fn ordinary_text_is_left_alone() {
        assert_eq!(escape("ε = 10⁻⁵, σ ≤ 2"), "ε = 10⁻⁵, σ ≤ 2");
    }
}
