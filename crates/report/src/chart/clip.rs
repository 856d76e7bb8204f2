//! Cutting lines and areas at the edge of the plot.

use crate::graphic::{GraphicPoint, Rect};

/// The part of a segment inside a rectangle, by narrowing its parameter interval at each edge (Liang-Barsky).
pub(crate) fn segment(
    from: GraphicPoint,
    to: GraphicPoint,
    rect: &Rect,
) -> Option<(GraphicPoint, GraphicPoint)> {
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let (mut start, mut end) = (0.0_f64, 1.0_f64);
    for (slope, distance) in [
        (-dx, from.0 - rect.x),
        (dx, rect.right() - from.0),
        (-dy, from.1 - rect.y),
        (dy, rect.bottom() - from.1),
    ] {
        if slope == 0.0 {
            if distance < 0.0 {
                return None;
            }
        } else if slope < 0.0 {
            start = start.max(distance / slope);
        } else {
            end = end.min(distance / slope);
        }
    }
    // Rounding may leave a cut a hair outside.
    let at = |t: f64| {
        ((from.0 + t * dx).clamp(rect.x, rect.right()), (from.1 + t * dy).clamp(rect.y, rect.bottom()))
    };
    (start <= end)
        .then(|| (if start == 0.0 { from } else { at(start) }, if end == 1.0 { to } else { at(end) }))
}

/// The parts of connected lines inside a rectangle.
pub(crate) fn polyline(points: &[GraphicPoint], rect: &Rect) -> Vec<Vec<GraphicPoint>> {
    let mut parts: Vec<Vec<GraphicPoint>> = Vec::new();
    let mut open = false;
    for pair in points.windows(2) {
        let Some((from, to)) = segment(pair[0], pair[1], rect) else {
            open = false;
            continue;
        };
        match parts.last_mut() {
            Some(part) if open && part.last() == Some(&from) => part.push(to),
            _ => parts.push(vec![from, to]),
        }
        open = to == pair[1];
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BOX: Rect = Rect::new(0.0, 0.0, 10.0, 10.0);

    #[test]
    fn lines_are_cut_at_the_edge() {
        assert_eq!(segment((-5.0, 5.0), (15.0, 5.0), &BOX), Some(((0.0, 5.0), (10.0, 5.0))));
        assert_eq!(segment((-5.0, 5.0), (-1.0, 5.0), &BOX), None);
        assert_eq!(segment((2.0, 3.0), (4.0, 5.0), &BOX), Some(((2.0, 3.0), (4.0, 5.0))));
        let parts = polyline(&[(1.0, 5.0), (5.0, 15.0), (9.0, 5.0)], &BOX);
        assert_eq!(parts, [vec![(1.0, 5.0), (3.0, 10.0)], vec![(7.0, 10.0), (9.0, 5.0)]]);
        assert_eq!(polyline(&[(1.0, 1.0), (2.0, 2.0), (3.0, 1.0)], &BOX).len(), 1);
    }

    proptest! {
        #[test]
        fn what_remains_is_inside(points in prop::collection::vec((-1e9..1e9f64, -1e9..1e9f64), 2..20)) {
            for part in polyline(&points, &BOX) {
                prop_assert!(part.len() >= 2);
                prop_assert!(part.iter().all(|point| BOX.contains(*point)));
            }
        }
    }
}
