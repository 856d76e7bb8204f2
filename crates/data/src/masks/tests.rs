use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

use dapple_geometry::Size;
use image::{GrayImage, ImageFormat};
use proptest::prelude::*;

use super::*;
use crate::Dataset;
use crate::formats::ImageFolder;

fn size(width: u32, height: u32) -> Size {
    Size::new(width, height).unwrap()
}

/// The mask of a file with this name and these bytes, as rows of dots and hashes, or what is wrong with it.
fn read(name: &str, bytes: &[u8], (width, height): (u32, u32)) -> Result<Vec<String>, String> {
    let mask = decode_image_mask(bytes, Path::new(name), size(width, height), &DataLimits::default());
    let row = |row: &[u8]| row.iter().map(|&pixel| if pixel == 1 { '#' } else { '.' }).collect();
    mask.map(|mask| mask.bytes().chunks(width as usize).map(row).collect()).map_err(|error| {
        assert!(error.hint().is_some());
        error.to_string()
    })
}

fn png(pixels: &[u8], width: u32) -> Vec<u8> {
    let picture = GrayImage::from_raw(width, pixels.len() as u32 / width, pixels.to_vec()).unwrap();
    let mut bytes = Cursor::new(Vec::new());
    picture.write_to(&mut bytes, ImageFormat::Png).unwrap();
    bytes.into_inner()
}

fn npy(descr: &str, shape: &str, values: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.bytes());
    bytes.extend(values);
    bytes
}

#[test]
fn every_way_to_say_a_mask_is_read() {
    let wanted = [".#..", ".##."];
    let floats: Vec<u8> = [-0.0f32, 1e-40, 0.0, 0.0, 0.0, f32::NAN, 3.0, -0.0].map(f32::to_le_bytes).concat();
    for (name, bytes) in [
        ("a.png", png(&[0, 1, 0, 0, 0, 255, 9, 0], 4)),
        ("a.npy", npy("|b1", "(2, 4)", &[0, 1, 0, 0, 0, 1, 1, 0])),
        ("a.npy", npy("<i2", "(2, 4)", &[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 255, 255, 1, 0, 0, 0])),
        ("a.npy", npy("<f4", "(2, 4)", &floats)),
        ("a.json", br#"{"size": [2, 4], "counts": [2, 2, 1, 1, 2]}"#.to_vec()),
        ("a.json", br#"[{"segmentation": {"size": [2, 4], "counts": [2, 2, 1, 1, 2]}, "bbox": [0, 0, 9, 9]}]"#.to_vec()),
        // COCO's text of [2, 2, 1, 1, 2], where 1 - 2 = -1 and 2 - 1 = 1 are differences.
        ("a.json", br#"{"size": [2, 4], "counts": "221O1"}"#.to_vec()),
        ("A.JSON", br#"{"boxes": [[1.7, 0, 1.9, 1.0], [2, 1.5, 2.5, 7]]}"#.to_vec()),
        ("a.json", br#"{"annotations": [{"bbox": [1, 0, 0.5, 1], "score": 0.1}, {"box": {"xmin": 2, "ymin": 1, "xmax": 2, "ymax": 1}}]}"#.to_vec()),
        ("a.csv", b"label,score,xmin,ymin,xmax,ymax\nface,0.9, 1,0,1.5,1\n\nface,0.1,2,1,2,1\n".to_vec()),
        ("a.csv", b"\"X\",\"Y\",\"Width\",\"Height\"\r\n1,-3,0.2,9\r\n2,1,0,0\r\n".to_vec()),
    ] {
        assert_eq!(read(name, &bytes, (4, 2)).unwrap(), wanted, "{}", String::from_utf8_lossy(&bytes));
    }
    for (name, bytes) in [("a.json", &b"[]"[..]), ("a.json", br#"{"boxes": []}"#), ("a.csv", b"x,y,w,h\n")] {
        assert_eq!(read(name, bytes, (2, 1)).unwrap(), [".."]);
    }
}

#[test]
fn what_is_no_mask_is_refused_by_name() {
    for (name, bytes, words) in [
        ("a.png", &b"nonsense"[..], "a.png: "),
        ("a.txt", b"", "a.txt: not a mask: its name does not end in .png, .npy, .json, .csv"),
        ("a.json", b"{", "a.json: not a mask: EOF while parsing"),
        ("a.json", b"7", "a number where a list of objects is expected"),
        ("a.json", b"[1]", "a number where an object"),
        ("a.json", b"{}", "an object without bbox"),
        ("a.json", br#"{"boxes": [[1, 2, 3]]}"#, "not four numbers"),
        ("a.json", br#"{"boxes": [[3, 0, 1, 1]]}"#, "ends before it begins"),
        ("a.json", br#"{"boxes": [[0.1, 0.2, 0.5, 0.9]]}"#, "not shares of the image"),
        ("a.json", br#"{"boxes": [[9, 9, 12, 12]]}"#, "outside the image of 4x2"),
        ("a.json", br#"{"counts": [8]}"#, "need \"size\""),
        ("a.json", br#"{"size": [2, 5], "counts": [10]}"#, "run lengths of 5x2 pixels, but the image is 4x2"),
        ("a.json", br#"{"size": [2, 4], "counts": [7]}"#, "7 pixels, but 4x2 has 8"),
        ("a.json", br#"{"size": [2, 4], "counts": [7, 18446744073709551615]}"#, "more than the 8 pixels"),
        ("a.json", br#"{"size": [2, 4], "counts": [-1, 9]}"#, "-1 is no run length"),
        ("a.json", br#"{"size": [2, 4], "counts": "2P"}"#, "are no run lengths"),
        ("a.csv", b"1,2,3,4\n", "no columns xmin"),
        ("a.csv", b"", "no columns xmin"),
        ("a.csv", b"x,y,w,h\n1,2,3\n", "box 1: 3 cells, but the first line has 4"),
        (
            "a.csv",
            b"label,xmin,ymin,xmax,ymax\n\"person, 3\",1,0,3,1\n",
            "box 1: 6 cells, but the first line has 5",
        ),
        ("a.csv", b"x,y,w,h\n1,,3,3\n", "box 1: \"\" is no number"),
        ("a.json", br#"[{"bbox": [0.5, 0.5, 0.5000001, 0.6]}]"#, "not shares of the image"),
        ("a.json", br#"{"boxes": 3}"#, "boxes that are no list"),
        ("a.json", br#"{"annotations": [], "bbox": [1, 2]}"#, "not four numbers"),
        ("a.csv", b"x,y,w,h\n1,1,nan,3\n", "no number"),
    ] {
        let error = read(name, bytes, (4, 2)).unwrap_err();
        assert!(error.contains(words) && !error.contains('\n'), "{error}");
    }
    let array = npy("|u1", "(2, 3)", &[0; 6]);
    assert_eq!(
        read("a.npy", &array, (4, 2)).unwrap_err(),
        "a.npy: the mask is 3x2 pixels, but its image is 4x2"
    );
    assert!(read("a.npy", &npy("|u1", "(6,)", &[0; 6]), (4, 2)).unwrap_err().contains("1 dimensions"));
    assert!(read("a.npy", &npy("|u1", "(2, 4)", &[0; 7]), (4, 2)).unwrap_err().contains("cut short"));
}

/// A file that lists objects in several places, or says two boxes of one, marks all of them.
#[test]
fn no_list_and_no_box_is_passed_over() {
    for text in [
        r#"{"annotations": [{"bbox": [0, 0, 3, 0]}], "predictions": [{"bbox": [2, 1, 1, 0]}]}"#,
        r#"{"detections": [{"bbox": [0, 0, 3, 0]}], "boxes": [[2, 1, 3, 1]]}"#,
        r#"[{"bbox": [0, 0, 3, 0], "box": {"xmin": 2, "ymin": 1, "xmax": 3, "ymax": 1}}]"#,
        r#"{"boxes": [[0, 0, 3, 0], [2, 1, 3, 1]], "objects": []}"#,
        r#"[{"bbox": [0, 0, 3, 0], "objects": [{"bbox": [2, 1, 1, 0]}]}]"#,
        r#"{"predictions": {"boxes": [[0, 0, 3, 0]]}, "objects": [{"predictions": [{"bbox": [2, 1, 1, 0]}]}]}"#,
        r#"{"size": [2, 4], "counts": [0, 1, 1, 1, 1, 1, 1, 1, 1], "segmentation": {"size": [2, 4], "counts": [4, 4]}}"#,
    ] {
        assert_eq!(read("a.json", text.as_bytes(), (4, 2)).unwrap(), ["####", "..##"], "{text}");
    }
    assert_eq!(read("a.json", br#"{"annotations": [], "boxes": []}"#, (4, 2)).unwrap(), ["....", "...."]);
    // What lies in lists of other names is not public because nobody reads it.
    for text in [
        r#"{"annotations": [], "instances": [{"bbox": [0, 0, 3, 0]}]}"#,
        r#"{"boxes": [], "ignored": {"regions": [[{"segmentation": []}]]}}"#,
        r#"{"objects": [{"bbox": [0, 0, 3, 0], "parts": [{"size": [2, 4], "counts": [4, 4]}]}]}"#,
    ] {
        let error = read("a.json", text.as_bytes(), (4, 2)).unwrap_err();
        assert!(error.contains("marks pixels, and is none of the lists that are read"), "{error}");
    }
    let counted = br#"{"annotations": [], "info": {"counts": {"people": 3}}, "images": [{"size": [4, 2]}]}"#;
    assert_eq!(read("a.json", counted, (4, 2)).unwrap(), ["....", "...."]);
}

/// A table whose lines end as on old Macs has its boxes, too, and no column of a name is passed over for another one.
#[test]
fn no_line_and_no_column_of_a_table_is_passed_over() {
    for text in ["xmin,ymin,xmax,ymax,score\r0,0,3,0,0.9\r2,1,3,1,0.1\r", "x,y,w,h,\r\n0,0,3,0,\r2,1,1,0,\n"]
    {
        assert_eq!(read("a.csv", text.as_bytes(), (4, 2)).unwrap(), ["####", "..##"], "{text:?}");
    }
    let twice = read("a.csv", b"x1,y1,x2,y2,x1,y1,x2,y2\n0,0,1,1,2,1,3,1\n", (4, 2)).unwrap_err();
    assert!(twice.contains("several columns \"x1\""), "{twice}");
    let forms = b"x1,y1,x2,y2,xmin,ymin,xmax,ymax\n0,0,1,1,2,1,3,1\n";
    let forms = read("a.csv", forms, (4, 2)).unwrap_err();
    assert!(forms.contains("in several forms"), "{forms}");
}

/// What the first of two values of a key marks is not passed over.
#[test]
fn json_says_nothing_twice() {
    for text in [
        r#"{"boxes": [[2, 1, 3, 1]], "boxes": []}"#,
        r#"{"annotations": [{"bbox": [0, 0, 3, 0], "bbox": [2, 1, 1, 0]}]}"#,
        r#"{"size": [2, 4], "counts": [0, 8], "counts": [8]}"#,
    ] {
        let error = read("a.json", text.as_bytes(), (4, 2)).unwrap_err();
        assert!(error.contains("is given twice"), "{error}");
    }
}

/// Differences that add up to more than 64 bits hold are no run lengths.
#[test]
fn runs_without_end_are_refused() {
    let largest = "o".repeat(9) + "?";
    let text = format!(r#"{{"size": [2, 4], "counts": "{}"}}"#, largest.repeat(40_000));
    assert!(read("a.json", text.as_bytes(), (4, 2)).unwrap_err().contains("are no run lengths"));
}

proptest! {
    /// A box takes in every pixel that it touches, and one more where its end lies on a border.
    #[test]
    fn boxes_cover_what_they_touch(corners in prop::array::uniform4(-3.0f64..14.0)) {
        let [left, top, right, bottom] = corners;
        let made = PixelBox::between([left.min(right), top.min(bottom), left.max(right), top.max(bottom)]);
        prop_assume!(made.is_ok());
        let Ok(mask) = boxes::mask(&[made.unwrap()], size(10, 9)) else {
            prop_assert!(left.max(right) < 0.0 || top.max(bottom) < 0.0 || left.min(right) >= 10.0 || top.min(bottom) >= 9.0);
            return Ok(());
        };
        for y in 0..9u32 {
            for x in 0..10u32 {
                let touched = |low: f64, high: f64, at: u32| low < f64::from(at + 1) && high >= f64::from(at);
                let inside = touched(left.min(right), left.max(right), x) && touched(top.min(bottom), top.max(bottom), y);
                prop_assert_eq!(mask.get(x, y), inside);
            }
        }
    }

    /// Runs of any mask, written down as COCO does, are that mask.
    #[test]
    fn runs_are_read_as_they_are_written(pixels in prop::collection::vec(0..2u8, 12)) {
        let mut runs = vec![0u64];
        for at in 0..12 {
            // Column by column: the image is 4 wide and 3 high.
            let pixel = u64::from(pixels[at % 3 * 4 + at / 3]);
            if (runs.len() as u64 - 1) % 2 != pixel {
                runs.push(0);
            }
            *runs.last_mut().unwrap() += 1;
        }
        let bytes = serde_json::json!({ "size": [3, 4], "counts": runs }).to_string();
        let mask = decode_image_mask(bytes.as_bytes(), Path::new("a.json"), size(4, 3), &DataLimits::default());
        let mask = mask.unwrap();
        prop_assert_eq!(mask.bytes(), &pixels[..]);
    }
}

#[test]
fn every_record_has_one_mask_of_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["train/cat", "train/dog", "masks/cat", "masks/dog"] {
        std::fs::create_dir_all(at(name)).unwrap();
    }
    std::fs::write(at("train/cat/a.b.png"), png(&[1, 2], 2)).unwrap();
    std::fs::write(at("train/dog/c.png"), png(&[3, 4], 2)).unwrap();
    let open = || {
        let limits = DataLimits::default();
        let whole = Arc::new(ImageFolder::open(&at("train"), &limits).unwrap());
        MaskedRecords::open(whole, &at("masks"), &limits)
    };
    let whole = Arc::new(ImageFolder::open(&at("train"), &DataLimits::default()).unwrap());
    let own = MaskedRecords::open(whole, &at("train"), &DataLimits::default()).err().unwrap();
    assert!(own.to_string().contains("a.b.png: not a mask: it is the picture itself"), "{own}");
    // By whichever path.
    let whole = Arc::new(ImageFolder::open(&at("train"), &DataLimits::default()).unwrap());
    let own = MaskedRecords::open(whole, &at("masks/../train"), &DataLimits::default()).err().unwrap();
    assert!(own.to_string().contains("it is the picture itself"), "{own}");
    let refused = |words: &str| {
        let error = open().err().unwrap();
        assert!(error.to_string().contains(words) && error.hint().is_some(), "{error}");
    };
    refused("no mask named");
    std::fs::write(at("masks/cat/a.b.json"), "[]").unwrap();
    std::fs::write(at("masks/dog/c.csv"), "x,y,w,h\n1,0,0.5,0").unwrap();
    let records = open().unwrap();
    assert!(records.mask(0, size(2, 1)).unwrap().unwrap().is_empty());
    assert_eq!(records.mask(1, size(2, 1)).unwrap().unwrap().bytes(), [0, 1]);
    let before = records.fingerprint().unwrap();
    assert_ne!(before, records.images_fingerprint().unwrap());
    std::fs::write(at("masks/dog/c.csv"), "x,y,w,h\n0,0,1.5,0").unwrap();
    assert_ne!(open().unwrap().fingerprint().unwrap(), before);
    std::fs::write(at("masks/dog/c.png"), png(&[0, 0], 2)).unwrap();
    refused("more than one mask named");
    std::fs::remove_file(at("masks/dog/c.png")).unwrap();
    std::fs::write(at("train/cat/a.b.pgm"), "P5\n1 1\n255\n\0").unwrap();
    refused("it would be that of both");
}

/// A picture whose camera was held sideways has two sides that may be up, and a mask may be of either.
#[test]
fn a_picture_that_is_to_be_turned_has_no_mask() {
    use image::ImageEncoder;
    use image::codecs::{jpeg::JpegEncoder, png::PngEncoder, webp::WebPEncoder};
    // A directory of one entry: the orientation (0x112), one short number.
    let exif = |orientation: u8| {
        let entry = [0x12, 1, 3, 0, 1, 0, 0, 0, orientation, 0, 0, 0];
        [b"II*\0".as_slice(), &[8, 0, 0, 0, 1, 0], &entry, &[0; 4]].concat()
    };
    fn encoded(mut encoder: impl ImageEncoder, exif: Vec<u8>) {
        encoder.set_exif_metadata(exif).unwrap();
        encoder.write_image(&[9; 12], 2, 2, image::ExtendedColorType::Rgb8).unwrap();
    }
    let cases = [(1, true), (3, false), (6, false), (2, false)];
    let endings = ["png", "jpg", "webp"].into_iter();
    for (ending, (orientation, stands)) in endings.flat_map(|ending| cases.map(|case| (ending, case))) {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("train/cat")).unwrap();
        std::fs::create_dir_all(at("masks/cat")).unwrap();
        let file = std::fs::File::create(at(&format!("train/cat/a.{ending}"))).unwrap();
        match ending {
            "png" => encoded(PngEncoder::new(file), exif(orientation)),
            "jpg" => encoded(JpegEncoder::new(file), exif(orientation)),
            _ => encoded(WebPEncoder::new_lossless(file), exif(orientation)),
        }
        std::fs::write(at("masks/cat/a.json"), r#"{"boxes": [[0, 0, 0, 3]]}"#).unwrap();
        let limits = DataLimits::default();
        let whole = Arc::new(ImageFolder::open(&at("train"), &limits).unwrap());
        // Without a mask, a picture is what it is stored as.
        assert!(whole.read(0).is_ok());
        match MaskedRecords::open(whole, &at("masks"), &limits).unwrap().read(0) {
            Ok(_) => assert!(stands, "{ending} {orientation}"),
            Err(error) => {
                assert!(
                    !stands && error.to_string().contains("to be turned") && error.hint().is_some(),
                    "{error}"
                );
            }
        }
    }
}

#[test]
fn masks_are_rounded_outwards_to_patches() {
    let mask = Mask::from_fn(size(5, 4), |x, y| (x, y) == (3, 1) || (x, y) == (4, 3)).unwrap();
    let patched = PatchedMask::new(&mask, 2).unwrap();
    assert_eq!((patched.private, patched.patches), (1, 4));
    // The last column fills no patch, and keeps what it has.
    let rounded = Mask::from_fn(size(5, 4), |x, y| (y < 2 && (x == 2 || x == 3)) || (x, y) == (4, 3));
    assert_eq!(patched.rounded, rounded.unwrap());
    assert!(PatchedMask::new(&mask, 0).is_err() && PatchedMask::new(&mask, 5).is_err());
}
