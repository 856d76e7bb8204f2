//! Tables of cells between commas.

/// A cell as a table holds it: in quotation marks where it would otherwise be read as something else.
pub(crate) fn cell(text: &str) -> String {
    let plain =
        text.trim() == text && !text.contains([',', '"', '\n', '\r']) && !text.starts_with('\u{feff}');
    if plain { text.to_owned() } else { format!("\"{}\"", text.replace('"', "\"\"")) }
}

/// The lines of a table, each with its number and its cells. A cell in quotation marks may hold commas, line ends and doubled quotation
/// marks; others are trimmed. Lines end in line feeds, carriage returns or both, and empty ones are passed over.
///
/// # Errors
/// A quotation mark that is not closed, or that something other than a comma follows.
pub(crate) fn lines(text: &str) -> Result<Vec<(usize, Vec<String>)>, String> {
    let mut lines = Vec::new();
    let mut characters = text.trim_start_matches('\u{feff}').chars().peekable();
    let mut number = 1;
    while characters.peek().is_some() {
        let begins = number;
        let mut cells = Vec::new();
        loop {
            while characters.next_if(|&c| c == ' ' || c == '\t').is_some() {}
            let mut cell = String::new();
            if characters.next_if_eq(&'"').is_some() {
                loop {
                    match characters.next() {
                        Some('"') if characters.next_if_eq(&'"').is_some() => cell.push('"'),
                        Some('"') => break,
                        Some(c) => {
                            number += usize::from(c == '\n');
                            cell.push(c);
                        }
                        None => return Err(format!("line {begins}: a quotation mark is not closed")),
                    }
                }
                while characters.next_if(|&c| c == ' ' || c == '\t').is_some() {}
                if characters.peek().is_some_and(|&c| !matches!(c, ',' | '\n' | '\r')) {
                    return Err(format!("line {number}: something follows a closed quotation mark"));
                }
            } else {
                while let Some(c) = characters.next_if(|&c| !matches!(c, ',' | '\n' | '\r')) {
                    cell.push(c);
                }
                cell.truncate(cell.trim_end().len());
            }
            cells.push(cell);
            if characters.next_if_eq(&',').is_none() {
                break;
            }
        }
        // What ends the line: a carriage return, a line feed, or both.
        let returned = characters.next_if_eq(&'\r').is_some();
        let _ = characters.next_if_eq(&'\n').is_some() || returned;
        number += 1;
        if cells.iter().any(|cell| !cell.is_empty()) {
            lines.push((begins, cells));
        }
    }
    Ok(lines)
}
