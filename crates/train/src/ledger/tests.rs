//! A ledger keeps what it is told, and nothing can be taken from it unnoticed.

use std::fs;

use dapple_data::SamplingEvent;
use dapple_plan::Scheme;
use proptest::prelude::*;

use super::*;

fn start(deterministic: bool) -> Start {
    Start {
        spec: "spec".into(),
        plan: "plan".into(),
        data: "data".into(),
        weights: "weights".into(),
        steps: 100,
        largest_block: 16,
        deterministic,
        private: true,
        sampling_key: None,
        pool: None,
    }
}

fn event() -> SamplingEvent {
    SamplingEvent {
        scheme: Scheme::Poisson,
        batch: 10,
        records: 100,
        per_record: 0,
        epoch_steps: 0,
        groups: 0,
        max_batch: 0,
        noise_multiplier: 1.0,
        inclusion_probability: 1.0,
    }
}

fn promise(ledger: &mut Ledger, first: u64, steps: u64) -> Result<(), TrainError> {
    ledger.append(&LedgerEntry::Promise { first, steps, event: event(), clip_norm: None })
}

fn written(deterministic: bool, blocks: &[u64]) -> (tempfile::TempDir, PathBuf, Ledger) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.jsonl");
    let mut ledger = Ledger::create(&path, start(deterministic)).unwrap();
    let mut first = 0;
    for &steps in blocks {
        promise(&mut ledger, first, steps).unwrap();
        first += steps;
    }
    (folder, path, ledger)
}

#[test]
fn what_is_promised_is_spent() {
    let (_folder, path, mut ledger) = written(false, &[1, 4, 16]);
    assert_eq!(ledger.history().spent(), 21);
    let (lines, head) = ledger.history().position();
    let (lines, head) = (lines, head.to_owned());
    ledger.append(&LedgerEntry::Stopped { step: 21, reason: "test".into() }).unwrap();
    let position = (ledger.history().position().0, ledger.history().position().1.to_owned());
    drop(ledger);
    let again = Ledger::open(&path).unwrap();
    assert_eq!(again.history().position(), (position.0, position.1.as_str()));
    assert_eq!(again.history().spent(), 21);
    assert!(again.history().has_seen(lines, &head));
    assert!(!again.history().has_seen(lines + 5, &head) && !again.history().has_seen(0, &head));
}

#[test]
fn steps_follow_each_other_unless_a_seed_repeats_them() {
    let (_folder, _path, mut secure) = written(false, &[4, 4]);
    for (first, steps) in [(4, 4), (9, 1), (8, 17), (8, 0), (u64::MAX, 2), (95, 10)] {
        assert!(promise(&mut secure, first, steps).is_err(), "{first} {steps}");
    }
    assert_eq!(secure.history().spent(), 8);
    let (_folder, _path, mut seeded) = written(true, &[4, 4]);
    promise(&mut seeded, 4, 6).unwrap();
    assert_eq!(seeded.history().spent(), 10);
    assert!(promise(&mut seeded, 11, 1).is_err());
}

#[test]
fn a_cut_line_counts_as_the_largest_block() {
    let (_folder, path, ledger) = written(false, &[4, 4]);
    drop(ledger);
    let whole = fs::read(&path).unwrap();
    let last_line = whole[..whole.len() - 1].iter().rposition(|&byte| byte == b'\n').unwrap() + 1;
    for cut in [last_line + 1, last_line + 50, whole.len() - 1] {
        fs::write(&path, &whole[..cut]).unwrap();
        let history = History::read(&whole[..cut]).unwrap();
        assert!(history.torn());
        // The block of four that was cut off was promised, so the count must not fall below it.
        assert_eq!(history.spent(), 4 + 16);
        let opened = Ledger::open(&path).unwrap().history().clone();
        assert_eq!(opened.spent(), 20);
        assert!(!opened.torn());
        assert_eq!(Ledger::open(&path).unwrap().history().position(), opened.position());
    }
}

#[test]
fn a_lost_step_is_counted_once() {
    let (_folder, _path, mut ledger) = written(false, &[16, 16]);
    // Two crashes after one checkpoint, one after a later checkpoint, and one that goes back behind that.
    for (checkpoint, step, lost) in [(10, 20, 10), (10, 25, 15), (28, 32, 19), (12, 32, 22), (32, 32, 22)] {
        ledger.append(&LedgerEntry::Resumed { checkpoint, step }).unwrap();
        assert_eq!(ledger.history().lost(), lost, "{checkpoint}..{step}");
    }
}

#[test]
fn a_full_disk_leaves_the_ledger_as_it_was() {
    // Linux has a device that is always full.
    let full = Path::new("/dev/full");
    if !full.exists() {
        return;
    }
    let (_folder, path, mut ledger) = written(false, &[4]);
    ledger.lines = Lines::of(full, File::options().append(true).open(full).unwrap(), 0);
    let error = promise(&mut ledger, 4, 4).unwrap_err();
    assert!(error.hint().unwrap().contains("disk is full"), "{error}");
    assert_eq!(ledger.history().spent(), 4);
    assert_eq!(Ledger::open(&path).unwrap().history().spent(), 4);
}

#[test]
fn a_ledger_has_one_writer() {
    let (folder, path, mut ledger) = written(false, &[4]);
    for _ in 0..2 {
        assert!(matches!(Ledger::open(&path), Err(TrainError::Locked { .. })));
        // Anybody may read, and no other file is needed to keep a second writer out.
        assert_eq!(History::read(&fs::read(&path).unwrap()).unwrap().spent(), 4);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
    assert!(matches!(Ledger::create(&path, start(false)), Err(TrainError::Exists { .. })));
    // Another process could write to a copy in its place, and what is written now would be lost.
    fs::copy(&path, folder.path().join("copy")).unwrap();
    fs::rename(folder.path().join("copy"), &path).unwrap();
    let error = promise(&mut ledger, 4, 4).unwrap_err();
    assert!(matches!(error, TrainError::Ledger { source: LedgerError::Touched, .. }), "{error}");
    drop(ledger);
    let mut first = Ledger::open(&path).unwrap();
    fs::write(&path, [fs::read(&path).unwrap().as_slice(), b"{"].concat()).unwrap();
    assert!(promise(&mut first, 4, 4).is_err());
}

#[test]
fn a_place_is_taken_once_and_a_mark_left_behind_is_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.jsonl");
    let claim = LedgerClaim::take(&path).unwrap();
    assert!(matches!(LedgerClaim::take(&path), Err(TrainError::Locked { .. })));
    drop(claim);
    assert!(LedgerClaim::was_left(&path) && !path.exists());
    let ledger = LedgerClaim::take(&path).unwrap().begin(start(false)).unwrap();
    assert!(!LedgerClaim::was_left(&path));
    assert!(matches!(Ledger::open(&path), Err(TrainError::Locked { .. })));
    drop(ledger);
    assert_eq!(Ledger::open(&path).unwrap().history().spent(), 0);
}

#[test]
fn entries_out_of_place_are_refused() {
    let (_folder, path, mut ledger) = written(false, &[4]);
    assert!(ledger.append(&LedgerEntry::Start(start(false))).is_err());
    ledger.append(&LedgerEntry::Finished { step: 4, model: None }).unwrap();
    assert!(promise(&mut ledger, 4, 1).is_err());
    assert!(matches!(History::read(b""), Err(LedgerError::NoStart)));
    let text = fs::read_to_string(&path).unwrap();
    let without_first = text.split_once('\n').unwrap().1;
    assert!(History::read(without_first.as_bytes()).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// On resuming, the events of the ledger are compared with those of the plan bit by bit.
    #[test]
    fn every_number_is_read_back_to_its_bits(noise: u64, inclusion: u64) {
        let (noise, inclusion) = (f64::from_bits(noise), f64::from_bits(inclusion));
        prop_assume!(noise.is_finite() && inclusion.is_finite());
        let event = SamplingEvent { noise_multiplier: noise, inclusion_probability: inclusion, ..event() };
        let (first, hash) = LedgerEntry::Start(start(false)).to_line(chain::ROOT);
        let (second, _) = LedgerEntry::Promise { first: 0, steps: 1, event, clip_norm: Some(noise) }.to_line(&hash);
        let text = format!("{first}{second}");
        let (links, _) = chain::read(text.as_bytes()).unwrap();
        let entry: LedgerEntry = serde_json::from_str(links[1].body).unwrap();
        let read = entry.event().unwrap();
        prop_assert_eq!(read.noise_multiplier.to_bits(), noise.to_bits());
        prop_assert_eq!(read.inclusion_probability.to_bits(), inclusion.to_bits());
        prop_assert_eq!(History::read(text.as_bytes()).unwrap().spent(), 1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Removing the end is the only change that a chain cannot show. What is left counts at least what it shows, and a checkpoint that
    /// has seen more notices.
    #[test]
    fn no_change_goes_unnoticed(
        blocks in prop::collection::vec(1u64..16, 1..6),
        place in any::<prop::sample::Index>(),
        bit in 0u8..8,
        kind in 0..4,
    ) {
        let (_folder, path, ledger) = written(false, &blocks);
        let (lines, head) = ledger.history().position();
        let original = fs::read(&path).unwrap();
        let mut bytes = original.clone();
        let text: Vec<&[u8]> = original.split_inclusive(|&byte| byte == b'\n').collect();
        match kind {
            0 => { let at = place.index(bytes.len()); bytes[at] ^= 1 << bit; }
            1 => bytes.truncate(place.index(bytes.len())),
            2 => { let gone = place.index(text.len()); bytes = text.iter().enumerate().filter(|(i, _)| *i != gone).flat_map(|(_, line)| line.to_vec()).collect(); }
            _ => { let mut lines = text.clone(); let at = place.index(lines.len() - 1); lines.swap(at, at + 1); bytes = lines.concat(); }
        }
        prop_assume!(bytes != original);
        if let Ok(history) = History::read(&bytes) {
            // Only a shorter file can be read, and a checkpoint notices that. If the last line end is flipped, the last line counts as
            // cut.
            prop_assert!(!history.has_seen(lines, head));
            prop_assert!(original.starts_with(&bytes) || history.torn());
            prop_assert!(history.torn() || history.spent() < ledger.history().spent());
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = History::read(&bytes);
    }
}
