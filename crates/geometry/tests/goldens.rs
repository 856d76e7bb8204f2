//! The paper's figures, and the same through the path for arbitrary masks.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use dapple_geometry::{
    CropDistribution, Mask, Operation, Padding, PaddingMode, Pipeline, Placement, Region, Size, inclusion,
};

struct Row {
    image: Size,
    patch: Size,
    pipeline: Pipeline,
    probability: f64,
    tolerance: f64,
}

fn rows() -> Vec<Row> {
    include_str!("goldens/inclusion.csv")
        .lines()
        .filter(|line| !line.starts_with('#') && !line.starts_with("image"))
        .map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            let pad = Operation::Pad {
                padding: Padding::uniform(fields[3].parse().unwrap()),
                mode: PaddingMode::Zero,
            };
            Row {
                image: fields[0].parse().unwrap(),
                patch: fields[2].parse().unwrap(),
                pipeline: Pipeline::new(vec![pad], CropDistribution::Fixed(fields[1].parse().unwrap()))
                    .unwrap(),
                probability: fields[4].parse().unwrap(),
                // Seven digits where the source has seven, otherwise two units in the last place.
                tolerance: if fields[4].len() <= 9 { 5e-8 } else { 2.0 * f64::EPSILON },
            }
        })
        .collect()
}

#[test]
fn closed_form_meets_the_reference() {
    for row in rows() {
        let found =
            inclusion(&Region::Rectangle(row.patch), Placement::Anywhere, row.image, &row.pipeline).unwrap();
        assert!(
            (found.probability() - row.probability).abs() <= row.tolerance,
            "{found:?} {}",
            row.probability
        );
        assert!(found.is_exact());
    }
}

#[test]
fn masks_meet_the_reference() {
    for row in rows().into_iter().step_by(7) {
        let region = Region::Rectangle(row.patch);
        let closed = inclusion(&region, Placement::Anywhere, row.image, &row.pipeline).unwrap();
        let (x, y) = closed.worst_origin.unwrap();
        let drawn = Mask::from_fn(row.image, |column, line| {
            (x..x + row.patch.width()).contains(&column) && (y..y + row.patch.height()).contains(&line)
        });
        let annotated =
            inclusion(&Region::Mask(drawn.unwrap()), Placement::Annotated, row.image, &row.pipeline).unwrap();
        assert_eq!(annotated.counts, closed.counts);
        assert!((annotated.probability() - row.probability).abs() <= row.tolerance);
    }
}
