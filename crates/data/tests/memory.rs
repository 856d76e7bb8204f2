//! Peak memory of samplers for a billion records: that of what a step draws, and no list of all records.
#![allow(
    clippy::unwrap_used,
    unsafe_code,
    reason = "helpers of tests; counting allocations needs an allocator"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use dapple_data::{MasterKey, Sampler, SamplerKeys};
use dapple_plan::{Plan, PlanSpec};

struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(live, Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(live, Ordering::Relaxed);
        unsafe { System.alloc_zeroed(layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const RECORDS: u64 = 1_000_000_000;

// One test, so that nothing else allocates meanwhile.
#[test]
fn a_billion_records_are_sampled_without_a_list_of_them() {
    let schemes = [
        ("scheme = 'poisson'\nbatch = 4096\nsteps = 2", 4096.0),
        ("scheme = 'without-replacement'\nbatch = 4096\nsteps = 2", 4096.0),
        ("scheme = 'balanced'\nper_record = 1\nsteps = 5000", RECORDS as f64 / 5000.0),
    ];
    for (scheme, batch) in schemes {
        let text = format!(
            "[privacy]\nrelation = 'replace'\ndelta = 1e-10\nnoise_multiplier = 1.0\n[sampling]\nrecords = {RECORDS}\n{scheme}\n"
        );
        let plan = Plan::check(&PlanSpec::from_toml(&text).unwrap()).unwrap();
        let key = SamplerKeys::of(&MasterKey::from_seed(1));
        let mut sampler = Sampler::new(&plan, RECORDS as usize, key).unwrap();
        let before = LIVE.load(Ordering::Relaxed);
        PEAK.store(before, Ordering::Relaxed);
        let drawn = sampler.draw(1).unwrap().indices;
        // Six standard deviations, beyond which less than one draw in a hundred million lies.
        assert!((drawn.len() as f64 - batch).abs() <= 6.0 * batch.sqrt(), "{scheme}: {}", drawn.len());
        assert!(drawn.windows(2).all(|pair| pair[0] < pair[1]) && (drawn[drawn.len() - 1] as u64) < RECORDS);
        // The whole list would take a gigabyte with one byte a record; an eighth of it with one bit.
        let peak = PEAK.load(Ordering::Relaxed) - before;
        println!("{peak} bytes: {scheme}");
        // Balanced sampling keeps 2^21 places: 16 bytes each while they are sorted, in a list that may have doubled, and 8 behind it.
        let most = if scheme.contains("balanced") { (1 << 21) * (2 * 16 + 8) + (1 << 20) } else { 1 << 20 };
        assert!(peak < most, "{scheme}: {peak} bytes");
    }
}
