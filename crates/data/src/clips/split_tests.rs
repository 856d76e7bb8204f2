//! Tests that published splits give each part the clips that are its own.

use std::fs;
use std::path::Path;

use dapple_plan::{ClipLayout, ListedSplit, NtuSplit, SmarthomeSplit};

use super::*;
use crate::open::DataPart;

/// Clips of one grey pixel at these paths below a folder, as arrays.
fn write(root: &Path, names: &[&str]) {
    let header = "{'descr': '|u1', 'fortran_order': False, 'shape': (1, 1, 1), }\n";
    for name in names {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.bytes());
        bytes.push(7);
        let path = root.join(format!("{name}.npy"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

/// The clips of a part with their classes.
fn part(
    root: &Path,
    layout: ClipLayout,
    lists: Option<&Path>,
    part: DataPart,
) -> Result<Vec<(String, String)>, DataError> {
    let split = SplitPlan { layout, lists, classes: None };
    let limits = DataLimits::default();
    let part = split.part(root, part, &limits)?.unwrap();
    let clips = Clips::open_split(root, part, 1, &limits)?;
    let names = clips.class_names().unwrap();
    let one = |record| {
        let name = clips.name(record).unwrap().trim_end_matches(".npy").to_owned();
        (name, names[clips.label(record).unwrap() as usize].clone())
    };
    Ok((0..clips.len()).map(one).collect())
}

/// The names of the clips of both parts.
fn parts(root: &Path, layout: ClipLayout, lists: Option<&Path>) -> [Vec<String>; 2] {
    [DataPart::Train, DataPart::Test]
        .map(|which| part(root, layout, lists, which).unwrap().into_iter().map(|(name, _)| name).collect())
}

#[test]
fn ucf_101_is_split_by_its_lists() {
    let folder = tempfile::tempdir().unwrap();
    let (root, lists) = (folder.path().join("UCF-101"), folder.path().join("lists"));
    write(&root, &["Surfing/v_Surfing_g01_c01", "Surfing/v_Surfing_g08_c01", "Archery/v_Archery_g09_c02"]);
    fs::create_dir(&lists).unwrap();
    let list = |name: &str, text: &str| fs::write(lists.join(name), text).unwrap();
    list("classInd.txt", "1 Surfing\r\n2 Archery\r\n");
    list("trainlist02.txt", "Surfing/v_Surfing_g08_c01.avi 1\nArchery/v_Archery_g09_c02.avi 2\n");
    list("testlist02.txt", "Surfing/v_Surfing_g01_c01.avi\n");
    let layout = ClipLayout::Ucf101(ListedSplit(2));
    let pair = |name: &str, class: &str| (name.to_owned(), class.to_owned());
    let of = |which| part(&root, layout, Some(&lists), which);
    assert_eq!(
        of(DataPart::Train).unwrap(),
        [pair("Surfing/v_Surfing_g08_c01", "Surfing"), pair("Archery/v_Archery_g09_c02", "Archery")]
    );
    assert_eq!(of(DataPart::Test).unwrap(), [pair("Surfing/v_Surfing_g01_c01", "Surfing")]);
    for (text, problem) in [
        ("Diving/v_Diving_g01_c01.avi", "testlist02.txt: line 1: not a clip in the folder of a class"),
        ("Surfing/../../secret.avi", "testlist02.txt: line 1: not a path below"),
        ("Surfing/v_Surfing_g02_c01.avi", "v_Surfing_g02_c01.avi: no clip"),
    ] {
        list("testlist02.txt", text);
        let error = of(DataPart::Test).unwrap_err();
        assert!(error.to_string().contains(problem) && error.hint().is_some(), "{error}");
    }
    list("classInd.txt", "2 Surfing\n");
    assert!(of(DataPart::Train).unwrap_err().to_string().contains("classInd.txt: line 1"));
}

#[test]
fn hmdb_51_is_split_by_its_lists() {
    let folder = tempfile::tempdir().unwrap();
    let (root, lists) = (folder.path().join("hmdb"), folder.path().join("lists"));
    write(&root, &["wave/a b", "wave/c", "wave/d", "chew/e"]);
    fs::create_dir(&lists).unwrap();
    let list = |name: &str, text: &str| fs::write(lists.join(name), text).unwrap();
    list("wave_test_split1.txt", "a b.avi 1 \nc.avi 2 \nd.avi 0 \n");
    list("chew_test_split1.txt", "e.avi 1 \n");
    list("chew_test_split2.txt", "e.avi 2 \n");
    let layout = ClipLayout::Hmdb51(ListedSplit(1));
    assert_eq!(parts(&root, layout, Some(&lists)), [vec!["chew/e", "wave/a b"], vec!["wave/c"]]);
    list("wave_test_split1.txt", "c.avi 3\n");
    let error = part(&root, layout, Some(&lists), DataPart::Train).unwrap_err();
    assert!(error.to_string().contains("line 1: not the file of a clip and 0, 1 or 2"), "{error}");
    let none = part(&root, ClipLayout::Hmdb51(ListedSplit(3)), Some(&lists), DataPart::Train).unwrap_err();
    assert!(none.to_string().contains("no list NAME_test_split3.txt"), "{none}");
}

#[test]
fn ntu_rgb_d_is_split_by_people_cameras_and_arrangements() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let names = ["S001C001P001R001A001_rgb", "S002C002P003R002A060_rgb", "S003C003P038R001A013_rgb"];
    write(root, &names);
    fs::write(root.join("S001C001P0010R001A001.txt"), "").unwrap();
    fs::write(root.join("readme.txt"), "").unwrap();
    let [first, second, third] = names;
    assert_eq!(parts(root, ClipLayout::NtuRgbD(NtuSplit::Subject), None), [vec![first, third], vec![second]]);
    assert_eq!(parts(root, ClipLayout::NtuRgbD(NtuSplit::View), None), [vec![second, third], vec![first]]);
    assert_eq!(parts(root, ClipLayout::NtuRgbD(NtuSplit::Setup), None), [vec![second], vec![first, third]]);
    let classes = part(root, ClipLayout::NtuRgbD(NtuSplit::View), None, DataPart::Train).unwrap();
    assert_eq!(classes[0].1, "A060");
    write(root, &["S018C001P001R001A061_rgb"]);
    let error = part(root, ClipLayout::NtuRgbD(NtuSplit::Subject), None, DataPart::Train).unwrap_err();
    assert!(
        error.to_string().contains("action 61, but 60 are told apart; say data.classes = 120"),
        "{error}"
    );
    let split = SplitPlan { layout: ClipLayout::NtuRgbD(NtuSplit::Subject), lists: None, classes: Some(120) };
    assert_eq!(split.part(root, DataPart::Train, &DataLimits::default()).unwrap().unwrap().names.len(), 120);
}

#[test]
fn toyota_smarthome_is_split_by_people_and_cameras() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let names =
        ["Cook.Stir_p03_r00_v01_c01", "Walk_p02_r01_v02_c02", "Walk_p03_r00_v02_c05", "Walk_p25_r00_v02_c07"];
    write(root, &names);
    fs::write(root.join("notes_about_things.txt"), "").unwrap();
    let [cook, second, fifth, seventh] = names;
    let of = |split| parts(root, ClipLayout::ToyotaSmarthome(split), None);
    assert_eq!(of(SmarthomeSplit::Subject), [vec![cook, fifth, seventh], vec![second]]);
    // Cooking is none of the activities that several cameras see, and the fifth camera is for validation.
    assert_eq!(of(SmarthomeSplit::View2), [vec![seventh], vec![second]]);
    let part = |which| {
        let split = SplitPlan {
            layout: ClipLayout::ToyotaSmarthome(SmarthomeSplit::View1),
            lists: None,
            classes: None,
        };
        split.part(root, which, &DataLimits::default()).unwrap().unwrap()
    };
    assert_eq!((part(DataPart::Train).clips.len(), part(DataPart::Test).names.len()), (0, 19));
}

/// Colours and infrared of one recording, or a video and its frames, would be two records of one person's doing.
#[test]
fn a_recording_in_two_forms_is_refused() {
    for (layout, names) in [
        (
            ClipLayout::NtuRgbD(NtuSplit::Subject),
            ["S001C001P001R001A001_rgb", "S001C001P001R001A001_ir", "S001C001P001R002A001_rgb"],
        ),
        (
            ClipLayout::ToyotaSmarthome(SmarthomeSplit::Subject),
            ["Walk_p03_r00_v02_c05", "Walk_p03_r00_v02_c05_depth", "Walk_p03_r00_v03_c05"],
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &[names[0], names[2]]);
        assert_eq!(part(folder.path(), layout, None, DataPart::Train).unwrap().len(), 2);
        write(folder.path(), &[names[1]]);
        let error = part(folder.path(), layout, None, DataPart::Train).unwrap_err();
        assert!(error.to_string().contains("in another form") && error.hint().is_some(), "{error}");
    }
}
