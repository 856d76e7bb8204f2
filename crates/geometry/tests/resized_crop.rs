//! Random resized crops against drawing them.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use dapple_geometry::{
    CropDistribution, Mask, Operation, Padding, PaddingMode, Pipeline, Placement, Region, Size, heatmap,
    inclusion,
};

/// Each comparison fails by chance with at most this probability.
const ALPHA: f64 = 1e-6;
const DRAWS: u32 = 400_000;

/// Hoeffding: a mean of n draws in [0, 1] is off by more than this with probability at most ALPHA.
fn deviation() -> f64 {
    ((2.0 / ALPHA).ln() / (2.0 * f64::from(DRAWS))).sqrt()
}

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn uniform(&mut self, (low, high): (f64, f64)) -> f64 {
        low + (high - low) * (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn below(&mut self, limit: u32) -> u32 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u32
    }
}

/// One crop, step by step as the drawing rule says: (x, y, width, height).
fn draw(random: &mut Random, image: Size, scale: (f64, f64), ratio: (f64, f64)) -> (u32, u32, u32, u32) {
    let (width, height) = (f64::from(image.width()), f64::from(image.height()));
    for _ in 0..10 {
        let area = width * height * random.uniform(scale);
        let shape = random.uniform((ratio.0.ln(), ratio.1.ln())).exp();
        let w = (area * shape).sqrt().round_ties_even();
        let h = (area / shape).sqrt().round_ties_even();
        if 0.0 < w && w <= width && 0.0 < h && h <= height {
            let (w, h) = (w as u32, h as u32);
            return (random.below(image.width() - w + 1), random.below(image.height() - h + 1), w, h);
        }
    }
    let (w, h) = if width / height < ratio.0 {
        (width, (width / ratio.0).round_ties_even())
    } else if width / height > ratio.1 {
        ((height * ratio.1).round_ties_even(), height)
    } else {
        (width, height)
    };
    let (w, h) = (w as u32, h as u32);
    ((image.width() - w) / 2, (image.height() - h) / 2, w, h)
}

/// How often a drawn crop contains a pixel of the mask.
fn frequency(mask: &Mask, scale: (f64, f64), ratio: (f64, f64), seed: u64) -> f64 {
    let size = mask.size();
    let stride = size.width() as usize + 1;
    let mut table = vec![0u32; stride * (size.height() as usize + 1)];
    for y in 0..size.height() as usize {
        for x in 0..size.width() as usize {
            let here = u32::from(mask.get(x as u32, y as u32));
            table[(y + 1) * stride + x + 1] =
                here + table[y * stride + x + 1] + table[(y + 1) * stride + x] - table[y * stride + x];
        }
    }
    let mut random = Random(seed);
    let mut seen = 0u32;
    for _ in 0..DRAWS {
        let (x, y, w, h) = draw(&mut random, size, scale, ratio);
        let at = |x: u32, y: u32| table[y as usize * stride + x as usize];
        seen += u32::from(at(x + w, y + h) + at(x, y) > at(x, y + h) + at(x + w, y));
    }
    f64::from(seen) / f64::from(DRAWS)
}

/// Image, scale and ratio.
type Setting = (Size, (f64, f64), (f64, f64));

fn settings() -> Vec<Setting> {
    let size = |width, height| Size::new(width, height).unwrap();
    let usual = (0.75, 4.0 / 3.0);
    vec![
        (size(64, 64), (0.08, 1.0), usual),
        (size(120, 50), (0.08, 1.0), usual),
        (size(50, 120), (0.2, 0.6), (0.5, 2.0)),
        // A single ratio, a single scale, and both.
        (size(64, 48), (0.1, 0.9), (1.0, 1.0)),
        (size(64, 48), (0.3, 0.3), usual),
        (size(64, 48), (0.25, 0.25), (1.0, 1.0)),
        // Nearly every try fails: too wide a ratio, so that the centre crop counts.
        (size(40, 40), (0.7, 1.0), (2.0, 3.0)),
        (size(200, 20), (0.5, 1.0), usual),
        // Tiny crops that round to nothing.
        (size(8, 8), (0.001, 0.02), usual),
    ]
}

#[test]
fn annotated_masks_agree_with_drawing() {
    for (seed, (image, scale, ratio)) in (1u64..).zip(settings()) {
        let (width, height) = (image.width(), image.height());
        let blob = Mask::from_fn(image, |x, y| {
            (x == width / 5 && y > height / 2) || (x * x + y * y < 9) || (x + 1 == width && y % 7 == 3)
        });
        let mask = blob.unwrap();
        let pipeline = Pipeline::crop(CropDistribution::resized(scale, ratio).unwrap());
        let found = inclusion(&Region::Mask(mask.clone()), Placement::Annotated, image, &pipeline).unwrap();
        let drawn = frequency(&mask, scale, ratio, seed);
        assert!(found.lower_bound() - deviation() <= drawn, "{image} {scale:?} {ratio:?}: {found:?} {drawn}");
        assert!(found.probability() + deviation() >= drawn, "{image} {scale:?} {ratio:?}: {found:?} {drawn}");
        // Each size is its own group here, so the bracket is rounding only (a little more where the law is degenerate).
        assert!(found.probability() - found.lower_bound() < 1e-6, "{found:?}");
    }
}

#[test]
fn the_central_patch_agrees_with_drawing() {
    for (seed, (image, scale, ratio)) in (100u64..).zip(settings()) {
        let patch = Size::new(3, 2).unwrap();
        let pipeline = Pipeline::crop(CropDistribution::resized(scale, ratio).unwrap());
        let found = inclusion(&Region::Rectangle(patch), Placement::Anywhere, image, &pipeline).unwrap();
        let (left, top) = found.worst_origin.unwrap();
        let mask = Mask::from_fn(image, |x, y| (left..left + 3).contains(&x) && (top..top + 2).contains(&y))
            .unwrap();
        let drawn = frequency(&mask, scale, ratio, seed);
        assert!(
            (found.probability() - drawn).abs() <= deviation(),
            "{image} {scale:?} {ratio:?}: {found:?} {drawn}"
        );
        assert!(found.probability() - found.lower_bound() < 1e-6, "{found:?}");
        // The closed form and the table of all window sizes are independent.
        let table = inclusion(&Region::Mask(mask), Placement::Annotated, image, &pipeline).unwrap();
        assert!((table.probability() - found.probability()).abs() < 1e-6);
        // No other place is worse.
        for (x, y) in [(0, 0), (1, top), (left, 0), (image.width() - 3, image.height() - 2)] {
            let there =
                inclusion(&Region::Rectangle(patch), Placement::At { x, y }, image, &pipeline).unwrap();
            assert!(there.lower_bound() <= found.probability());
        }
    }
}

#[test]
fn padded_images_are_covered() {
    for mode in [PaddingMode::Zero, PaddingMode::Reflect, PaddingMode::Replicate, PaddingMode::Wrap] {
        let image = Size::new(30, 24).unwrap();
        let pad = Operation::Pad { padding: Padding { x: 7, y: 5 }, mode };
        let pipeline =
            Pipeline::new(vec![pad], CropDistribution::resized((0.1, 0.5), (0.5, 2.0)).unwrap()).unwrap();
        for region in [Region::Rectangle(Size::new(4, 3).unwrap()), Region::Circle { radius: 2.0 }] {
            let found = inclusion(&region, Placement::Anywhere, image, &pipeline).unwrap();
            let extent = region.extent().unwrap();
            let mut most = 0.0f64;
            for x in 0..=image.width() - extent.width() {
                for y in 0..=image.height() - extent.height() {
                    let there = inclusion(&region, Placement::At { x, y }, image, &pipeline).unwrap();
                    most = most.max(there.lower_bound());
                }
            }
            assert!(
                found.probability() >= most && found.lower_bound() <= most + 1e-9,
                "{mode}: {found:?} {most}"
            );
            let map = heatmap(&region, image, &pipeline).unwrap();
            let hottest = f64::from(map.values.iter().copied().fold(0.0, f32::max));
            // Drawn from above in single precision.
            assert!(hottest >= most - 1e-5 && hottest <= 1.0);
        }
    }
}

#[test]
fn large_images_keep_a_small_bracket() {
    let pipeline = Pipeline::crop(CropDistribution::resized((0.08, 1.0), (0.75, 4.0 / 3.0)).unwrap());
    let found = |width, height| {
        let patch = Region::Rectangle(Size::new(10, 10).unwrap());
        inclusion(&patch, Placement::Anywhere, Size::new(width, height).unwrap(), &pipeline).unwrap()
    };
    let cityscapes = found(2048, 1024);
    assert!(cityscapes.probability() - cityscapes.lower_bound() < 1e-9);
    let huge = found(1 << 20, 1 << 20);
    assert!(huge.probability() - huge.lower_bound() < 1e-3);
}
