//! How much memory there is and how much this process takes, where the system says so.

use std::fs;

/// The share of the free memory that runs may take: evaluation and page cache need some too.
const SHARE: f64 = 0.7;

/// Bytes that this process has in memory.
pub(super) fn resident() -> Option<u64> {
    kilobytes(&fs::read_to_string("/proc/self/status").ok()?, "VmRSS:")
}

/// Bytes that this process may still take.
fn available() -> Option<u64> {
    let machine = kilobytes(&fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable:")?;
    Some(group().map_or(machine, |group| group.min(machine)))
}

/// Bytes that the control group of a container leaves; files that were only read do not count.
fn group() -> Option<u64> {
    let read = |name: &str| fs::read_to_string(format!("/sys/fs/cgroup/{name}")).ok();
    let most: u64 = read("memory.max")?.trim().parse().ok()?;
    let taken: u64 = read("memory.current")?.trim().parse().ok()?;
    let stat = read("memory.stat")?;
    let files = stat.lines().find_map(|line| line.strip_prefix("inactive_file "));
    let files: u64 = files.and_then(|bytes| bytes.parse().ok()).unwrap_or(0);
    Some(most.saturating_sub(taken.saturating_sub(files)))
}

/// The number behind a name, in bytes.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// How many of the wanted runs memory allows at once when each takes `each` bytes and one is under way already. Where the system does
/// not say how much is free, memory is no limit.
pub(super) fn allows(wanted: usize, each: Option<u64>) -> usize {
    match each.zip(available()) {
        Some((each, available)) => fitting(wanted, each, available),
        None => wanted,
    }
}

fn fitting(wanted: usize, each: u64, available: u64) -> usize {
    let more = SHARE * available as f64 / each.max(1) as f64;
    // A float beyond the largest whole number becomes that number.
    wanted.min((more as usize).saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_system_are_read() {
        let status = "Name:\tdapple\nVmPeak:\t  200 kB\nVmRSS:\t  1234 kB\n";
        assert_eq!(kilobytes(status, "VmRSS:"), Some(1234 * 1024));
        assert_eq!(kilobytes(status, "VmSwap:"), None);
        assert_eq!(kilobytes("VmRSS: many kB", "VmRSS:"), None);
        #[cfg(target_os = "linux")]
        assert!(resident().unwrap() > 0 && available().unwrap() > 0);
    }

    #[test]
    fn runs_fit_into_what_is_free() {
        // One is under way; seven tenths of ten make room for three more of two.
        assert_eq!(fitting(16, 2, 10), 4);
        assert_eq!(fitting(2, 2, 10), 2);
        assert_eq!(fitting(16, 100, 10), 1);
        assert_eq!(fitting(16, 0, u64::MAX), 16);
        assert_eq!(allows(5, None), 5);
    }
}
