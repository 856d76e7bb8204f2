//! Tests the inclusion probability of clips against every path of a region, every crop and every window of small clips.
#![allow(clippy::unwrap_used, reason = "a test")]

use dapple_plan::{Plan, PlanSpec};

/// A small clip, what is protected in it, and how it is shown.
#[derive(Debug, Clone, Copy)]
struct Clip {
    image: [u32; 2],
    patch: [u32; 2],
    travel: [u32; 2],
    pad: u32,
    crop: [u32; 2],
    frames: u32,
    window: u32,
    duration: u32,
}

impl Clip {
    fn plan(&self, views: u32) -> Plan {
        let Self { image, patch, travel, pad, crop, frames, window, duration } = self;
        let text = format!(
            "[privacy]\nrelation = 'patch'\nnoise_multiplier = 1.0\ndelta = 1e-5\n[sampling]\nbatch = 10\nrecords = 100\nsteps = 1\n\
             [region]\npatch = {patch:?}\ntravel = {travel:?}\nduration = {duration}\n\
             [pipeline]\nimage = {image:?}\npad = [{pad}, {pad}]\ncrop = {crop:?}\nviews = {views}\nframes = {frames}\nwindow = {window}\n"
        );
        Plan::check(&PlanSpec::from_toml(&text).unwrap()).unwrap()
    }

    /// All places of the region that keep it inside the image.
    fn places(&self) -> Vec<[u32; 2]> {
        let room = [0, 1].map(|axis| self.image[axis] - self.patch[axis]);
        (0..=room[1]).flat_map(|y| (0..=room[0]).map(move |x| [x, y])).collect()
    }

    /// Whether a crop, whose origin counts from the edge of the padding, shows a region at this place.
    fn meets(&self, origin: [u32; 2], place: [u32; 2]) -> bool {
        (0..2).all(|axis| {
            let (first, start) = (place[axis] + self.pad, origin[axis]);
            first < start + self.crop[axis] && start < first + self.patch[axis]
        })
    }

    /// Of all crops and windows, those that show the region on this path through the frames from `first` on.
    fn shown(&self, first: u32, path: &[[u32; 2]]) -> (u32, u32) {
        let room = [0, 1].map(|axis| self.image[axis] + 2 * self.pad - self.crop[axis]);
        let (mut shown, mut all) = (0, 0);
        for x in 0..=room[0] {
            for y in 0..=room[1] {
                for start in 0..=self.frames - self.window {
                    let seen = |(frame, place): (u32, &[u32; 2])| {
                        (start..start + self.window).contains(&frame) && self.meets([x, y], *place)
                    };
                    shown += u32::from((first..).zip(path).any(seen));
                    all += 1;
                }
            }
        }
        (shown, all)
    }

    /// The largest share over all paths within the travel, and all times.
    fn worst(&self) -> f64 {
        let places = self.places();
        let lasts = self.duration.min(self.frames);
        let mut worst: f64 = 0.0;
        for number in 0..places.len().pow(lasts) {
            let path: Vec<[u32; 2]> =
                (0..lasts).map(|frame| places[number / places.len().pow(frame) % places.len()]).collect();
            let span = |axis: usize| {
                let along = || path.iter().map(|place| place[axis]);
                along().max().unwrap() - along().min().unwrap()
            };
            if span(0) > self.travel[0] || span(1) > self.travel[1] {
                continue;
            }
            for first in 0..=self.frames - lasts {
                let (shown, all) = self.shown(first, &path);
                worst = worst.max(f64::from(shown) / f64::from(all));
            }
        }
        worst
    }
}

#[test]
fn no_path_of_a_region_is_seen_more_often_than_is_priced() {
    let (mut checked, mut attained) = (0, 0);
    for (image, pad) in [([4, 3], 0), ([3, 3], 1)] {
        for patch in [[1, 1], [2, 1], [1, 3]] {
            for travel in [[0, 0], [1, 0], [1, 2], [3, 1]] {
                for crop in [[2, 2], [3, 1], [1, 3]] {
                    for (window, duration) in [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (1, 3)] {
                        let clip = Clip { image, patch, travel, pad, crop, frames: 3, window, duration };
                        let worst = clip.worst();
                        for views in [1, 3] {
                            let priced = clip.plan(views).spatial().inclusion_probability();
                            // Views are drawn independently; a few roundings of the oracle.
                            let seen = 1.0 - (1.0 - worst).powi(views as i32);
                            assert!(seen <= priced + 1e-14, "{clip:?} {views}: {seen} and {priced}");
                            attained += u32::from((seen - priced).abs() < 1e-14);
                            checked += 1;
                        }
                    }
                }
            }
        }
    }
    // What stays in its place is seen as often as is priced.
    assert!(4 * attained > checked, "{attained} of {checked}");
}
