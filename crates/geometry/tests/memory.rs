//! Peak memory of the counts over large masks, all buffers included: below 12 bytes a pixel.
#![allow(
    clippy::unwrap_used,
    unsafe_code,
    reason = "helpers of tests; counting allocations needs an allocator"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use dapple_geometry::{
    CropDistribution, GeometryError, Mask, Operation, Padding, PaddingMode, Pipeline, Placement, Region,
    Size, inclusion,
};

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

// One test, so that nothing else allocates meanwhile.
#[test]
fn below_twelve_bytes_a_pixel() {
    let side = 2048;
    let image = Size::new(side, side).unwrap();
    let blob = |size: Size| {
        let (x, y) = (size.width() / 2, size.height() / 2);
        let squared = u64::from(x) * u64::from(y);
        let bytes = (0..size.pixels()).map(|index| {
            let dx = u64::from(x.abs_diff((index % u64::from(size.width())) as u32));
            let dy = u64::from(y.abs_diff((index / u64::from(size.width())) as u32));
            u8::from(dx * dx + dy * dy <= squared && (dx ^ dy) & 3 != 0)
        });
        Mask::from_bytes(size, bytes.collect()).unwrap()
    };
    let fixed = CropDistribution::fixed(900, 700).unwrap();
    let resized = CropDistribution::resized((0.08, 1.0), (0.75, 4.0 / 3.0)).unwrap();
    let pad = |mode| Operation::Pad { padding: Padding::uniform(64), mode };
    let pipelines = [
        Pipeline::crop(fixed),
        Pipeline::new(vec![pad(PaddingMode::Zero)], fixed).unwrap(),
        Pipeline::new(vec![pad(PaddingMode::Reflect)], fixed).unwrap(),
        Pipeline::new(vec![pad(PaddingMode::Wrap)], fixed).unwrap(),
        Pipeline::new(vec![Operation::Blur { radius_x: 5, radius_y: 5 }], fixed).unwrap(),
        Pipeline::crop(resized),
        Pipeline::new(vec![pad(PaddingMode::Reflect)], resized).unwrap(),
    ];
    for pipeline in &pipelines {
        for (extent, placement) in
            [(image, Placement::Annotated), (Size::new(side / 2, side / 2).unwrap(), Placement::Anywhere)]
        {
            let before = LIVE.load(Ordering::Relaxed);
            PEAK.store(before, Ordering::Relaxed);
            let region = Region::Mask(blob(extent));
            let found = inclusion(&region, placement, image, pipeline).unwrap();
            let bytes = (PEAK.load(Ordering::Relaxed) - before) as f64 / image.pixels() as f64;
            assert!(found.probability() > 0.0);
            assert!(bytes < 12.0, "{placement}, {pipeline:?}: {bytes:.2} bytes a pixel");
            println!(
                "{bytes:5.2} bytes a pixel: {placement}, {:?}, {:?}",
                pipeline.before(),
                pipeline.crop_distribution()
            );
        }
    }
    // One line of a plan, an image of the longest side that is priced, must not take a gigabyte; a longer one is refused.
    let patch = Region::Rectangle(Size::new(2, 2).unwrap());
    let blurred = &pipelines[4];
    let long = |side| inclusion(&patch, Placement::Anywhere, Size::new(side, 900).unwrap(), blurred);
    let before = LIVE.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    assert!(long(1 << 20).is_ok());
    let refused = long((1 << 20) + 1).unwrap_err();
    assert!(matches!(refused, GeometryError::TooLarge { .. }) && refused.hint().is_some(), "{refused}");
    let peak = PEAK.load(Ordering::Relaxed) - before;
    assert!(peak < 1 << 27, "{peak} bytes");
}
