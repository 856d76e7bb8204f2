//! Damaged files are read or refused: no panic, little memory, one line that says why.
#![allow(unsafe_code, clippy::unwrap_used, reason = "counting memory takes an allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use dapple_fuzz::{Damage, READERS, Reader};

/// Damaged files a reader unless `DAPPLE_FUZZ` says otherwise.
const EXECUTIONS: u64 = 2000;

/// Bytes that one file may take at once. Files have up to 64 KiB and may unpack to as much, pictures have up to 2^14 pixels of eight bytes,
/// of which a decoder may hold a few copies beside its tables.
const MOST_BYTES: usize = 4 << 20;

struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

fn taken(bytes: usize) {
    MOST.fetch_max(HELD.fetch_add(bytes, Relaxed) + bytes, Relaxed);
}

// SAFETY: every request goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        taken(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        taken(layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Whether a file was read, or what is wrong with how it was.
fn execute(reader: &Reader, bytes: &[u8], folder: &std::path::Path) -> Result<bool, String> {
    let before = HELD.load(Relaxed);
    MOST.store(before, Relaxed);
    let outcome = std::panic::catch_unwind(|| (reader.read)(bytes, folder));
    let most = MOST.load(Relaxed) - before;
    let outcome = outcome.map_err(|_| "a panic".to_owned())?;
    if most > MOST_BYTES {
        return Err(format!("{most} bytes of memory"));
    }
    match outcome {
        Ok(()) => Ok(true),
        Err(refusal) if refusal.message.is_empty() => Err("no word of what is wrong".to_owned()),
        Err(refusal) => {
            let lines = [Some(refusal.message), refusal.hint];
            match lines.into_iter().flatten().find(|line| line.contains('\n')) {
                Some(line) => Err(format!("more than one line: {line:?}")),
                None => Ok(false),
            }
        }
    }
}

/// One test for all: what is held is counted in the whole process.
#[test]
fn damaged_files_are_read_or_refused() {
    let executions = std::env::var("DAPPLE_FUZZ").map_or(EXECUTIONS, |text| text.parse().unwrap());
    let only = std::env::var("DAPPLE_FUZZ_READER").ok();
    for reader in READERS.iter().filter(|reader| only.as_ref().is_none_or(|name| name == reader.name)) {
        let folder = tempfile::tempdir().unwrap();
        let files = (reader.corpus)();
        assert!(!files.is_empty(), "{}: nothing to begin from", reader.name);
        let mut damage = Damage::new(7);
        let mut read = 0u64;
        for number in 0..executions {
            let bytes = damage.next(&files);
            match execute(reader, &bytes, folder.path()) {
                Ok(whole) => read += u64::from(whole),
                Err(problem) => {
                    let name = format!("{}-{number}.fuzz", reader.name.replace(' ', "-"));
                    let kept = std::env::temp_dir().join(name);
                    std::fs::write(&kept, &bytes).unwrap();
                    panic!("{}, file {number} ({}): {problem}", reader.name, kept.display());
                }
            }
        }
        println!("{}: {executions} files, {read} of them read", reader.name);
        // Damage that nothing survives would test the first line of a reader only.
        assert!(read > 0 || executions < EXECUTIONS, "{}: every file was refused", reader.name);
    }
}

/// The files to begin from are what they should be.
#[test]
fn whole_files_are_read() {
    for reader in READERS {
        let folder = tempfile::tempdir().unwrap();
        let read =
            (reader.corpus)().iter().filter(|bytes| (reader.read)(bytes, folder.path()).is_ok()).count();
        assert!(read > 0, "{}", reader.name);
    }
}
