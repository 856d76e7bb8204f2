use std::path::Path;

use dapple_plan::number::hexadecimal;
use image::RgbImage;
use sha2::{Digest, Sha256};

use super::super::ImageFolder;
use super::*;
use crate::{DataError, DataLimits, Dataset};

/// Pictures of several sizes below a folder, by their paths.
fn write(root: &Path, paths: &[&str]) {
    for (number, path) in paths.iter().enumerate() {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let number = number as u32;
        RgbImage::from_fn(5 + number, 4, |x, y| image::Rgb([(x * 7 + y) as u8, number as u8, 3]))
            .save(path)
            .unwrap();
    }
}

const PICTURES: [&str; 5] = ["cat/1.png", "cat/2, old.png", "dog/1.png", "dog/2.png", "dog/3.png"];

fn limits() -> DataLimits {
    DataLimits::default()
}

fn opened(folder: &Path, text: &str) -> Result<ShardedImages, DataError> {
    ShardedImages::decode(text.as_bytes(), Path::new("list.csv"), folder, None, &limits())
}

/// The list says of the pictures what their folder says.
#[test]
fn a_list_stands_for_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &PICTURES);
    let whole = ImageFolder::open(folder.path(), &limits()).unwrap();
    let text = list_shards(folder.path(), ShardCut::Dealt(2), &limits()).unwrap();
    let listed = opened(folder.path(), &text).unwrap();
    assert_eq!((listed.len(), listed.classes(), listed.class_names()), (5, 2, whole.class_names()));
    for record in 0..5 {
        assert_eq!(listed.read(record).unwrap(), whole.read(record).unwrap());
        assert_eq!(listed.label(record).unwrap(), whole.label(record).unwrap());
        assert_eq!(listed.size_of(record).unwrap(), whole.size_of(record).unwrap());
        assert_eq!((listed.name(record), listed.place(record)), (whole.name(record), whole.place(record)));
        assert_eq!(listed.shard(record), Some(if record % 2 == 0 { "0" } else { "1" }));
        assert!(listed.is_here(record));
    }
    assert!(listed.read(5).is_err() && listed.shard(5).is_none() && !listed.is_here(5));
}

#[test]
fn folders_may_be_shards() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &["north/cat/1.png", "north/dog/1.png", "south/dog/1.png"]);
    let text = list_shards(folder.path(), ShardCut::Folders, &limits()).unwrap();
    let listed = opened(folder.path(), &text).unwrap();
    assert_eq!((0..3).map(|record| listed.label(record).unwrap()).collect::<Vec<_>>(), [0, 1, 1]);
    assert_eq!(
        (0..3).map(|record| listed.shard(record).unwrap()).collect::<Vec<_>>(),
        ["north", "north", "south"]
    );
}

/// What lies elsewhere is known without its files, and what is read is what the list says.
#[test]
fn files_are_looked_for_when_they_are_read() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &PICTURES);
    let text = list_shards(folder.path(), ShardCut::Dealt(3), &limits()).unwrap();
    let before = opened(folder.path(), &text).unwrap().fingerprint().unwrap();
    std::fs::remove_file(folder.path().join("dog/1.png")).unwrap();
    let same_size = |colour| RgbImage::from_pixel(8, 4, image::Rgb([colour; 3]));
    same_size(9).save(folder.path().join("dog/2.png")).unwrap();
    let listed = opened(folder.path(), &text).unwrap();
    assert_eq!(listed.fingerprint().unwrap(), before);
    assert_eq!((listed.is_here(2), listed.is_here(3)), (false, true));
    assert!(listed.size_of(2).unwrap().is_some() && listed.label(2).is_ok());
    let error = listed.read(2).unwrap_err();
    assert!(error.to_string().contains("shard \"2\"") && error.hint().is_some(), "{error}");
    let error = listed.read(3).unwrap_err();
    assert!(matches!(error, DataError::OtherContent { what: "content", .. }) && error.hint().is_some());
    // A list that says another size would price another crop.
    let digest = hexadecimal(&Sha256::digest(std::fs::read(folder.path().join("cat/1.png")).unwrap()));
    let text = format!("file,class,width,height,sha256,shard\ncat/1.png,cat,6,4,{digest},a\n");
    assert!(matches!(
        opened(folder.path(), &text).unwrap().read(0),
        Err(DataError::OtherContent { what: "size", .. })
    ));
}

/// Shards may be cut anew; everything else is another data set.
#[test]
fn fingerprints_are_those_of_the_pictures() {
    let nowhere = Path::new("nowhere");
    let line = |file: &str, class: &str, width: u32, digest: char, shard: &str| {
        format!("{file},{class},{width},4,{},{shard}\n", digest.to_string().repeat(64))
    };
    let of = |line: String| {
        opened(
            nowhere,
            &format!("file,class,width,height,sha256,shard\nfirst,x,1,1,{},0\n{line}", "0".repeat(64)),
        )
        .unwrap()
        .fingerprint()
        .unwrap()
    };
    let one = of(line("a.png", "x", 5, 'a', "0"));
    assert_eq!(of(line("a.png", "x", 5, 'a', "1")), one);
    assert_eq!(of(line("a.png", "x", 5, 'A', "0")), one);
    for other in [
        line("b.png", "x", 5, 'a', "0"),
        line("a.png", "y", 5, 'a', "0"),
        line("a.png", "x", 6, 'a', "0"),
        line("a.png", "x", 5, 'b', "0"),
        String::new(),
    ] {
        assert_ne!(of(other), one);
    }
}

#[test]
fn what_is_no_list_is_refused_by_its_line() {
    let digest = "0123456789abcdefABCDEF".repeat(3)[..64].to_owned();
    let header = "file,class,width,height,sha256,shard";
    let good = format!("a/b.png,a,5,4,{digest},0");
    assert!(opened(Path::new("nowhere"), &format!("{header}\n{good}\n")).is_ok());
    // Columns may come in another order, and others are passed over.
    let turned = format!("shard,sha256,note,height,width,class,file\n0,{digest},x,4,5,a,a/b.png\n");
    let turned = opened(Path::new("nowhere"), &turned).unwrap();
    assert_eq!((turned.name(0).unwrap().as_str(), turned.shard(0)), ("a/b.png", Some("0")));
    for (text, part) in [
        (String::new(), "empty"),
        (format!("{header}\n"), "no picture"),
        (format!("file,class,width,height,sha256\n{good}\n"), "no column `shard`"),
        (format!("{header},File\n{good},x\n"), "several columns \"file\""),
        (format!("{header}\n{good},more\n"), "line 2: 7 cells"),
        (format!("{header}\n{good}\n{good}\n"), "line 3: a/b.png is named in line 2"),
        (format!("{header}\n{good}\na/./{}\n", &good[2..]), "line 3"),
        (format!("{header}\n../{good}\n"), "line 2"),
        (format!("{header}\n/{good}\n"), "line 2"),
        (format!("{header}\n,a,5,4,{digest},0\n"), "line 2"),
        (format!("{header}\na.png,,5,4,{digest},0\n"), "line 2"),
        (format!("{header}\na.png,a,5,4,{digest},\n"), "line 2: a.png lies in no shard"),
        (format!("{header}\na.png,a,-5,4,{digest},0\n"), "line 2: \"-5\""),
        (format!("{header}\na.png,a,5,4,{},0\n", &digest[1..]), "line 2"),
        (format!("{header}\na.png,a,5,4,{}g,0\n", &digest[1..]), "line 2"),
        (format!("{header}\na.png,\"a,5,4\n"), "quotation mark"),
    ] {
        let error = opened(Path::new("nowhere"), &text).unwrap_err();
        assert!(error.to_string().contains(part) && error.hint().is_some(), "{error}: {text}");
    }
    let huge = format!("{header}\na.png,a,100000,100000,{digest},0\n");
    assert!(matches!(opened(Path::new("nowhere"), &huge), Err(DataError::Limit { .. })));
    let classes = ["b".to_owned()];
    let text = format!("{header}\n{good}\n");
    let other =
        ShardedImages::decode(text.as_bytes(), Path::new("l"), Path::new("."), Some(&classes), &limits());
    assert!(other.unwrap_err().to_string().contains("\"a\" is no class"));
}

/// A record that counts twice is protected half as well.
#[cfg(unix)]
#[test]
fn two_names_of_one_file_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &PICTURES);
    let text = list_shards(folder.path(), ShardCut::Dealt(1), &limits()).unwrap();
    std::os::unix::fs::symlink(folder.path().join("dog/1.png"), folder.path().join("dog/9.png")).unwrap();
    let line = text.lines().find(|line| line.starts_with("dog/1.png")).unwrap().replace("dog/1", "dog/9");
    let error = opened(folder.path(), &format!("{text}{line}\n")).unwrap_err();
    assert!(matches!(error, DataError::Twice { .. }), "{error}");
}
