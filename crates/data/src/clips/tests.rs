//! Tests that clips are read frame by frame, each with its own mask.

use std::fs;
use std::path::Path;

use dapple_geometry::Size;
use tempfile::TempDir;

use super::*;
use crate::Values;

const WIDE: usize = 3;
const HIGH: usize = 2;

fn npy(descr: &str, shape: &str, values: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.bytes());
    bytes.extend(values);
    bytes
}

/// The value of a frame's pixel in each channel.
fn value(frame: usize, pixel: usize, channel: usize) -> u8 {
    (frame * 40 + pixel * 3 + channel) as u8
}

fn frame(number: usize) -> Vec<u8> {
    (0..WIDE * HIGH).flat_map(|pixel| [0, 1, 2].map(|channel| value(number, pixel, channel))).collect()
}

fn write_frames(folder: &Path, frames: usize) {
    fs::create_dir_all(folder).unwrap();
    for number in 0..frames {
        let bytes = [format!("P6\n{WIDE} {HIGH}\n255\n").into_bytes(), frame(number)].concat();
        fs::write(folder.join(format!("f{}.ppm", number + 1)), bytes).unwrap();
    }
}

fn write_array(path: &Path, frames: usize) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let values: Vec<u8> = (0..frames).flat_map(frame).collect();
    fs::write(path, npy("|u1", &format!("{frames}, {HIGH}, {WIDE}, 3"), &values)).unwrap();
}

/// Two classes with a folder of twelve frames and an array of five.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_frames(&folder.path().join("run/v.1"), 12);
    write_array(&folder.path().join("walk/w.npy"), 5);
    fs::write(folder.path().join("walk/notes.txt"), "passed over").unwrap();
    folder
}

fn clips(root: &Path, frames: usize) -> Result<Clips, DataError> {
    Clips::open(root, None, frames, &DataLimits::default())
}

/// The frames that a clip shows, by the number that their pixels tell.
fn shown(image: &Image) -> Vec<usize> {
    let Values::Bytes(values) = image.values() else { panic!("bytes") };
    let frames = image.frames().unwrap();
    let numbers: Vec<usize> = values[..frames].iter().map(|value| usize::from(*value) / 40).collect();
    for (pixel, values) in values.chunks_exact(3 * frames).enumerate() {
        for (at, found) in values.iter().enumerate() {
            assert_eq!(*found, value(numbers[at % frames], pixel, at / frames));
        }
    }
    numbers
}

#[test]
fn folders_and_arrays_are_clips() {
    let folder = folder();
    let clips = clips(folder.path(), 4).unwrap();
    assert_eq!((clips.len(), clips.classes(), clips.channels(), clips.frames()), (2, 2, 3, Some(4)));
    assert_eq!(clips.class_names().unwrap(), ["run", "walk"]);
    assert_eq!([0, 1].map(|record| clips.label(record).unwrap()), [0, 1]);
    assert_eq!([0, 1].map(|record| clips.name(record).unwrap()), ["run/v.1", "walk/w.npy"]);
    // Six frames fit into a byte, so the twelfth shows what a sixth of them would.
    let of = |record| clips.read(record).unwrap();
    assert_eq!((of(1).size(), shown(&of(1))), (Size::new(3, 2).unwrap(), vec![0, 1, 3, 4]));
    let before = clips.fingerprint().unwrap();
    let again = |frames| self::clips(folder.path(), frames).unwrap().fingerprint().unwrap();
    assert_eq!(before, again(4));
    assert_ne!(before, again(5));
    write_frames(&folder.path().join("run/v.1"), 13);
    assert_ne!(before, again(4));
}

/// Frames that were taken out of a video beside it would make its people two records.
#[test]
fn a_clip_in_two_forms_is_refused() {
    for (first, second) in
        [("walk/w.npy", "walk/w"), ("walk/w.avi", "walk/w.npy"), ("walk/w.avi", "walk/w.mp4")]
    {
        let root = tempfile::tempdir().unwrap();
        for path in [first, second].map(|path| root.path().join(path)) {
            match path.extension() {
                None => write_frames(&path, 2),
                Some(_) => write_array(&path, 2),
            }
        }
        let error = clips(root.path(), 2).unwrap_err();
        assert!(error.to_string().contains("in another form") && error.hint().is_some(), "{error}");
        fs::rename(root.path().join(second), root.path().join("walk/other.npy")).unwrap();
        assert_eq!(clips(root.path(), 2).map(|clips| clips.len()).unwrap(), 2);
    }
}

#[test]
fn frames_come_in_natural_order_and_repeat_in_short_clips() {
    let folder = tempfile::tempdir().unwrap();
    write_frames(&folder.path().join("a/x"), 6);
    // f10 comes after f9, and would come after f1 in the order of letters.
    fs::rename(folder.path().join("a/x/f6.ppm"), folder.path().join("a/x/f10.ppm")).unwrap();
    write_array(&folder.path().join("a/y.npy"), 2);
    let of = |record, frames| shown(&clips(folder.path(), frames).unwrap().read(record).unwrap());
    assert_eq!(of(0, 6), [0, 1, 2, 3, 4, 5]);
    assert_eq!(of(0, 3), [1, 3, 5]);
    assert_eq!(of(0, 9), [0, 1, 1, 2, 3, 3, 4, 5, 5]);
    assert_eq!(of(1, 5), [0, 0, 1, 1, 1]);
}

#[test]
fn grey_arrays_become_colours() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("a")).unwrap();
    fs::write(folder.path().join("a/x.npy"), npy("|u1", "2, 1, 2", &[1, 2, 3, 4])).unwrap();
    let image = clips(folder.path(), 2).unwrap().read(0).unwrap();
    assert_eq!(image.values(), &Values::Bytes(vec![1, 3, 1, 3, 1, 3, 2, 4, 2, 4, 2, 4]));
}

#[test]
fn what_is_no_clip_is_refused_by_its_file() {
    let refused = |name: &str, bytes: &[u8]| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        let read = clips(folder.path(), 2).and_then(|clips| clips.read(0));
        let error = read.unwrap_err();
        assert!(error.hint().is_some());
        let text = error.to_string();
        text.strip_prefix(&format!("{}/", folder.path().display())).unwrap_or(&text).to_owned()
    };
    let array = |shape: &str, values: usize| npy("|u1", shape, &vec![0; values]);
    assert_eq!(
        refused("b.npy", &array("2, 3", 6)),
        "a/b.npy: shape [2, 3], but a clip is [frames, height, width, 1 or 3]"
    );
    assert_eq!(
        refused("b.npy", &array("1, 1, 1, 2", 2)),
        "a/b.npy: shape [1, 1, 1, 2], but a clip is [frames, height, width, 1 or 3]"
    );
    assert_eq!(refused("b.npy", &npy("<f4", "1, 1, 1", &[0; 4])), "a/b.npy: clips are uint8");
    assert!(refused("b.npy", &array("2, 1, 1", 1)).contains("cut short"));
    assert_eq!(refused("b.npy", &array("0, 1, 1", 0)), "a/b.npy: no frame in it");
    assert_eq!(refused("b/c.txt", b""), "a/b: no frame in it");
    assert_eq!(refused("b.txt", b""), "a: no clip in it");
    let large = array("1, 4, 4", 16);
    let limits = DataLimits { pixels: 31, ..DataLimits::default() };
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("a")).unwrap();
    fs::write(folder.path().join("a/b.npy"), large).unwrap();
    let error = Clips::open(folder.path(), None, 2, &limits).unwrap().read(0).unwrap_err();
    assert!(error.to_string().ends_with("a/b.npy: 2 frames of 4x4, but 31 are allowed"), "{error}");
}

#[test]
fn frames_of_two_sizes_are_no_clip() {
    let folder = tempfile::tempdir().unwrap();
    write_frames(&folder.path().join("a/x"), 2);
    fs::write(folder.path().join("a/x/f3.ppm"), b"P6\n1 1\n255\nabc").unwrap();
    let error = clips(folder.path(), 3).unwrap().read(0).unwrap_err();
    assert!(error.to_string().ends_with("f3.ppm: a frame of 1x1 in a clip of 3x2"), "{error}");
}

/// Masks of the array, which has five frames of 3x2 pixels, as one row of pixels for each frame that is shown.
fn masks(frames: usize, write: impl Fn(&Path)) -> Result<Vec<String>, String> {
    let root = tempfile::tempdir().unwrap();
    write_array(&root.path().join("train/walk/w.npy"), 5);
    fs::create_dir_all(root.path().join("masks/walk")).unwrap();
    write(&root.path().join("masks/walk"));
    let clips = clips(&root.path().join("train"), frames).unwrap();
    let size = Size::new(3, 2).unwrap();
    let found = clips.with_masks(&root.path().join("masks")).and_then(|clips| clips.frame_masks(0, size));
    let row = |mask: &Mask| mask.bytes().iter().map(|&pixel| if pixel == 1 { '#' } else { '.' }).collect();
    found.map(|masks| masks.unwrap().iter().map(row).collect()).map_err(|error| {
        assert!(error.hint().is_some());
        error.to_string().replace(&root.path().display().to_string(), "")
    })
}

#[test]
fn every_way_to_say_masks_of_clips_is_read() {
    let file = |name: &'static str, text: &'static str| {
        move |folder: &Path| fs::write(folder.join(name), text).unwrap()
    };
    let third = ["......", "#.....", "......"];
    // Frames 0, 2 and 4 are shown of the five.
    let array = |folder: &Path| {
        let mut values = vec![0; 30];
        values[12] = 1;
        values[6..12].fill(1);
        fs::write(folder.join("w.npy"), npy("|u1", "5, 2, 3", &values)).unwrap();
    };
    assert_eq!(masks(3, array).unwrap(), third);
    assert_eq!(masks(3, file("w.json", r#"[[], [], [{"bbox": [0, 0, 0.5, 0.5]}], [{"bbox": [0, 0, 3, 3]}], []]"#)), Err("/masks/walk/w.json: not a mask: a box [0.0, 0.0, 0.5, 0.5] in the first two pixels; corners are pixels, not shares of the image".to_owned()));
    assert_eq!(
        masks(3, file("w.json", r#"[[], [], [{"bbox": [-1, 0, 1.5, 0.5]}], [{"bbox": [0, 0, 3, 3]}], []]"#))
            .unwrap(),
        third
    );
    assert_eq!(
        masks(3, file("w.json", r#"{"frames": [[], [], {"boxes": [[-1, 0, 0.5, 0.5]]}, [], []]}"#)).unwrap(),
        third
    );
    assert_eq!(masks(3, file("w.json", r#"{"annotations": [{"frame": 2, "bbox": [-1, 0, 1.5, 0.5]}, {"frame": 3, "bbox": [0, 0, 3, 3]}]}"#)).unwrap(), third);
    assert_eq!(masks(3, file("w.csv", "frame,x1,y1,x2,y2\n2,-1,0,0.5,0.5\n1,0,0,3,3\n")).unwrap(), third);
    // Without frames, all frames have the mask.
    assert_eq!(masks(3, file("w.csv", "x1,y1,x2,y2\n-1,0,0.5,0.5\n")).unwrap(), ["#....."]);
    assert_eq!(masks(3, file("w.json", r#"[{"bbox": [-1, 0, 1.5, 0.5]}]"#)).unwrap(), ["#....."]);
    assert_eq!(masks(3, file("w.json", "[]")).unwrap(), ["......"]);
    let folders = |names: [&'static str; 5]| {
        move |folder: &Path| {
            fs::create_dir(folder.join("w")).unwrap();
            for (number, name) in names.iter().enumerate() {
                let boxes = if number == 2 { "[{\"bbox\": [-1, 0, 1.5, 0.5]}]" } else { "[]" };
                fs::write(folder.join("w").join(name), boxes).unwrap();
            }
        }
    };
    assert_eq!(masks(3, folders(["0.json", "1.json", "2.json", "3.json", "4.json"])).unwrap(), third);
    assert_eq!(
        masks(3, folders(["000.json", "001.json", "002.json", "003.json", "004.json"])).unwrap(),
        third
    );
    let counted_from_one = masks(3, folders(["1.json", "2.json", "3.json", "4.json", "5.json"])).unwrap_err();
    assert!(counted_from_one.contains("frame 0: no mask"), "{counted_from_one}");
}

#[test]
fn masks_of_other_frames_are_refused() {
    let file = |name: &'static str, text: &'static str| {
        move |folder: &Path| fs::write(folder.join(name), text).unwrap()
    };
    for (name, text, problem) in [
        ("w.json", "[[], []]", "lists of 2 frames, but the clip has 5"),
        (
            "w.json",
            r#"[{"frame": 5, "bbox": [0, 0, 3, 3]}]"#,
            "frame 5, but the clip has 5, and frames count from 0",
        ),
        (
            "w.json",
            r#"[{"frame": 1, "bbox": [0, 0, 3, 3]}, {"bbox": [0, 0, 3, 3]}]"#,
            "an object without the number of its frame",
        ),
        ("w.json", r#"[{"frame": 1, "bbox": [9, 9, 3, 3]}]"#, "outside the image"),
        // What is marked outside of the frames would be passed over.
        (
            "w.json",
            r#"{"boxes": [[0, 0, 3, 3]], "annotations": [{"frame": 1, "bbox": [0, 0, 3, 3]}]}"#,
            "objects of no frame beside those of frames",
        ),
        (
            "w.json",
            r#"{"annotations": [{"frame": 1, "bbox": [0, 0, 3, 3]}], "objects": {"boxes": [[0, 0, 3, 3]]}}"#,
            "objects of no frame beside those of frames",
        ),
        (
            "w.json",
            r#"{"frames": [[], [], [], [], []], "boxes": [[0, 0, 3, 3]]}"#,
            "objects beside the lists of frames",
        ),
        (
            "w.json",
            r#"{"frames": [[], [], [], [], []], "objects": [{"bbox": [0, 0, 3, 3]}]}"#,
            "objects beside the lists of frames",
        ),
        (
            "w.json",
            r#"[{"frame": 1, "bbox": [0, 0, 3, 3], "objects": [{"frame": 2, "bbox": [0, 0, 3, 3]}]}]"#,
            "an object of frame 2 among those of frame 1",
        ),
        (
            "w.json",
            r#"{"frames": [{"frame": 4, "boxes": []}, [], [], [], []]}"#,
            "an object of frame 4 among those of frame 0",
        ),
        (
            "w.json",
            r#"{"frames": [[], [], [], [], []], "tracks": [{"bbox": [0, 0, 3, 3]}]}"#,
            "\"tracks\" marks pixels",
        ),
        (
            "w.json",
            r#"{"annotations": [{"frame": 1, "bbox": [0, 0, 3, 3]}], "tracks": [{"frame": 2, "bbox": [0, 0, 3, 3]}]}"#,
            "\"tracks\" marks pixels",
        ),
        (
            "w.json",
            r#"{"annotations": [], "frames": {"2": [{"bbox": [0, 0, 3, 3]}]}}"#,
            "\"frames\" marks pixels",
        ),
        ("w.csv", "frame,frame,x1,y1,x2,y2\n0,2,0,0,3,3\n", "several columns \"frame\""),
        ("w.csv", "frame,x1,y1,x2,y2\n7,0,0,3,3\n", "frame 7"),
        ("w.csv", "frame,x1,y1,x2,y2\nb,0,0,3,3\n", "no number of a frame"),
        ("v.json", "[]", "no mask named"),
    ] {
        let error = masks(3, file(name, text)).unwrap_err();
        assert!(error.contains(problem), "{error}");
    }
    let four = |folder: &Path| fs::write(folder.join("w.npy"), npy("|u1", "4, 2, 3", &[0; 24])).unwrap();
    assert!(masks(3, four).unwrap_err().contains("masks of 4 frames, but the clip has 5"));
    let one = |folder: &Path| fs::write(folder.join("w.npy"), npy("|u1", "1, 2, 3", &[0; 6])).unwrap();
    assert!(masks(3, one).unwrap_err().contains("masks of 1 frames, but the clip has 5"));
    let both = |folder: &Path| {
        fs::write(folder.join("w.json"), "[]").unwrap();
        fs::create_dir(folder.join("w")).unwrap();
    };
    assert!(masks(3, both).unwrap_err().contains("more than one mask named"));
}

/// Of a clip whose frames are to be turned nobody knows how masks lie over it, and a clip that is its own mask lets private pixels decide
/// what is private.
#[test]
fn clips_without_sure_masks_are_refused() {
    use image::{ImageEncoder, codecs::png::PngEncoder};
    let root = tempfile::tempdir().unwrap();
    let frames = root.path().join("train/run/v");
    write_frames(&frames, 3);
    write_array(&root.path().join("train/run/w.npy"), 2);
    for own in ["train", "masks/../train", "masks"] {
        fs::create_dir_all(root.path().join("masks/run")).unwrap();
        for name in ["v.json", "w.json"] {
            fs::write(root.path().join("masks/run").join(name), "[]").unwrap();
        }
        let masked = clips(&root.path().join("train"), 3).unwrap().with_masks(&root.path().join(own));
        match own {
            "masks" => assert!(masked.unwrap().read(0).is_ok()),
            _ => assert!(masked.unwrap_err().to_string().contains("it is the clip itself")),
        }
    }
    let mut encoder = PngEncoder::new(fs::File::create(frames.join("f2b.png")).unwrap());
    // A directory of one entry: the orientation (0x112), upside down.
    let turned =
        [b"II*\0".as_slice(), &[8, 0, 0, 0, 1, 0, 0x12, 1, 3, 0, 1, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]];
    encoder.set_exif_metadata(turned.concat()).unwrap();
    encoder.write_image(&frame(1), WIDE as u32, HIGH as u32, image::ExtendedColorType::Rgb8).unwrap();
    let plain = clips(&root.path().join("train"), 4).unwrap();
    assert!(plain.read(0).is_ok());
    let masked = plain.with_masks(&root.path().join("masks")).unwrap();
    let error = masked.read(0).unwrap_err();
    assert!(error.to_string().contains("to be turned"), "{error}");
    assert!(masked.read(1).is_ok());
}
