//! The first byte chooses the reader, the rest is the file.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((first, file)) = bytes.split_first() else { return };
    let reader = &dapple_fuzz::READERS[usize::from(*first) % dapple_fuzz::READERS.len()];
    let _ = (reader.read)(file, &std::env::temp_dir());
});
