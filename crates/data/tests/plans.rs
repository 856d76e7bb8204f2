//! Every plan that comes with the program can be read, solved for its noise and priced, and says enough for its data to be shown.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::path::Path;

use dapple_data::formats::PackedImages;
use dapple_data::street::STREET_PATCH;
use dapple_data::{DataPlan, Views, open};
use dapple_geometry::Size;
use dapple_plan::spec::DataFormat;
use dapple_plan::{BracketPrecision, Plan, PlanSpec, SolvedValue, Unknown, calibrate};

#[test]
fn every_example_is_read_solved_and_priced() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/plans");
    let mut examples = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        // Data that an example asks for may lie beside it.
        if path.is_dir() {
            continue;
        }
        let name = path.display();
        let mut spec = PlanSpec::from_toml(&fs::read_to_string(&path).unwrap()).unwrap();
        // A public model costs nothing, and has no price.
        if spec.train.private == Some(false) {
            continue;
        }
        let target = spec.privacy.epsilon.unwrap();
        if spec.privacy.noise_multiplier.is_none() {
            let solved =
                calibrate(&spec, &[], Unknown::NoiseMultiplier, BracketPrecision::default()).unwrap();
            let SolvedValue::Real(noise) = solved.solved.value else { unreachable!() };
            spec.privacy.noise_multiplier = Some(noise);
        }
        let plan = Plan::check(&spec).unwrap();
        let spent = plan.price(BracketPrecision::default()).unwrap().epsilon.upper;
        assert!(spent <= target, "{name}: {spent}");
        // Where the data is not part of the program, photographs of the plan's size stand in for it.
        let image = spec.pipeline.image.unwrap();
        let size = Size::new(image.x, image.y).unwrap();
        let photographs = || {
            let bytes = vec![0; 3 * size.pixels() as usize];
            PackedImages::new(&path, size, 3, bytes, vec![0], 1).unwrap()
        };
        let checked = DataPlan::check(&spec).unwrap();
        let views = match spec.data.format.unwrap() {
            format if format.is_embedded() => {
                let data = open(&checked, &path).unwrap();
                assert_eq!(
                    (data.train.len() as u64, data.train.image_size()),
                    (plan.records(), Some(size)),
                    "{name}"
                );
                Views::new(plan.spatial(), &checked.views, &*data.train)
            }
            _ => Views::new(plan.spatial(), &checked.views, &photographs()),
        };
        // Views are of the crop's size, or of the image's without a crop, unless the plan says which.
        let shown = spec.data.size.or(spec.pipeline.crop).unwrap_or(image);
        let seen = views.unwrap().view_size();
        assert_eq!([seen.width(), seen.height()], [shown.x, shown.y], "{name}");
        if spec.data.format == Some(DataFormat::StreetScenes) {
            let patch = spec.region.patch.unwrap();
            assert!(patch.x >= STREET_PATCH[0] && patch.y >= STREET_PATCH[1], "{name}");
        }
        examples += 1;
    }
    assert!(examples >= 5);
}
