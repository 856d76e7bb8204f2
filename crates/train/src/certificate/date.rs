//! The calendar.

use std::time::{SystemTime, UNIX_EPOCH};

const SECONDS: u64 = 24 * 60 * 60;

/// The day in coordinated universal time, as `2026-01-31`.
pub(crate) fn today() -> String {
    // A clock before 1970 is wrong, and no number depends on what it says.
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    of_day(seconds / SECONDS)
}

/// The date of a day, counted from 1 January 1970.
fn of_day(day: u64) -> String {
    // Let years begin in March, so that a leap day is the last day of a year. 400 years have 146097 days.
    let day = day + 719_468;
    let (era, day) = (day / 146_097, day % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (year, month) = match month {
        0..10 => (400 * era + year, month + 3),
        _ => (400 * era + year + 1, month - 9),
    };
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::of_day;

    #[test]
    fn days_have_their_dates() {
        // Seconds over 86400 as `date -u -d DATE +%s` gives them.
        for (day, date) in [
            (0, "1970-01-01"),
            (59, "1970-03-01"),
            (789, "1972-02-29"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (20_453, "2025-12-31"),
            (20_454, "2026-01-01"),
            (47_540, "2100-02-28"),
            (47_541, "2100-03-01"),
        ] {
            assert_eq!(of_day(day), date);
        }
    }
}
