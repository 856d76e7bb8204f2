//! How likely a window of frames sees a region that is in view for some of them.

use crate::{GeometryError, Inclusion};

/// The probability that a window of `shown` consecutive frames, whose first one is uniform over all places in a clip of `frames` frames,
/// holds a frame of an interval of `duration` frames.
///
/// # Guarantee
/// Never below the exact probability for the worst interval, which is the one in the middle.
///
/// # Errors
/// No frames, or a window that is longer than the clip.
pub fn window_inclusion(frames: u32, shown: u32, duration: u32) -> Result<Inclusion, GeometryError> {
    if shown == 0 || shown > frames {
        return Err(GeometryError::BadWindow { shown, frames });
    }
    // The windows that hold a frame of the interval a .. a + d begin at a - w + 1 .. a + d - 1 (the lemma of patch-level privacy by random crops, along one axis; Durmaz et al., Lemma 1).
    let starts = u64::from(frames - shown) + 1;
    let hits = match duration {
        0 => 0,
        duration => starts.min(u64::from(shown) + u64::from(duration) - 1),
    };
    Ok(Inclusion::from_counts(hits, starts, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_interval_is_counted() {
        for frames in 1..14u32 {
            for shown in 1..=frames {
                for duration in 1..=frames {
                    let meets = |start: u32, first: u32| start < first + duration && first < start + shown;
                    let hits =
                        |first| (0..=frames - shown).filter(|&start| meets(start, first)).count() as u64;
                    let worst = (0..=frames - duration).map(hits).max().unwrap_or(0);
                    let found = window_inclusion(frames, shown, duration).unwrap();
                    assert_eq!(found.counts.unwrap().hits, worst, "{frames} {shown} {duration}");
                    assert!(found.probability() >= worst as f64 / f64::from(frames - shown + 1));
                }
            }
        }
        assert_eq!(window_inclusion(4, 2, 0).unwrap().probability(), 0.0);
        assert!(window_inclusion(4, 5, 1).is_err() && window_inclusion(4, 0, 1).is_err());
    }
}
