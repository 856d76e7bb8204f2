//! The little markup that running text may carry.

use crate::escape::escape;

/// Escapes text and sets `` `code` `` and `**bold**`; a mark without its partner stays as it is.
pub(super) fn render(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(['`', '*']) {
        let (mark, open, close) = if rest[start..].starts_with('`') {
            ("`", "<code>", "</code>")
        } else if rest[start..].starts_with("**") {
            ("**", "<strong>", "</strong>")
        } else {
            out.push_str(&escape(&rest[..=start]));
            rest = &rest[start + 1..];
            continue;
        };
        let inner = &rest[start + mark.len()..];
        match inner.find(mark).filter(|length| *length > 0) {
            Some(length) => {
                out.push_str(&escape(&rest[..start]));
                out.extend([open, &escape(&inner[..length]), close]);
                rest = &inner[length + mark.len()..];
            }
            None => {
                out.push_str(&escape(&rest[..start + mark.len()]));
                rest = inner;
            }
        }
    }
    out + &escape(rest)
}

#[cfg(test)]
mod tests {
    use super::render;

    #[test]
    fn marks_come_in_pairs() {
        assert_eq!(render("set `a < b` and **go**"), "set <code>a &lt; b</code> and <strong>go</strong>");
        assert_eq!(render("2 * 3 ** 4 ` 5"), "2 * 3 ** 4 ` 5");
        assert_eq!(render("`` <x>"), "`` &lt;x&gt;");
        assert_eq!(render("**<script>**"), "<strong>&lt;script&gt;</strong>");
        assert_eq!(render("ε*δ"), "ε*δ");
    }
}
