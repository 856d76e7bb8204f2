//! `dapple mask`: from boxes to masks that a plan trains with.

#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::process::Command;

use common::dapple_with;
use insta::assert_snapshot;

/// Three pictures of 8x8, with boxes, with a mask, and with none of either.
fn folder(folder: &Path) {
    for name in ["pictures/cat", "pictures/dog", "boxes/cat", "boxes/dog"] {
        std::fs::create_dir_all(folder.join(name)).unwrap();
    }
    let picture = |value: u8| image::RgbImage::from_pixel(8, 8, image::Rgb([value, 100, 200]));
    for (name, value) in [("cat/a", 10), ("cat/b", 20), ("dog/c", 30)] {
        picture(value).save(folder.join(format!("pictures/{name}.png"))).unwrap();
    }
    std::fs::write(folder.join("boxes/cat/a.json"), r#"[{"bbox": [3, 3, 1.5, 0.5], "score": 0.9}]"#).unwrap();
    std::fs::write(folder.join("boxes/cat/b.csv"), "xmin,ymin,xmax,ymax\n").unwrap();
    image::GrayImage::from_pixel(8, 8, image::Luma([1])).save(folder.join("boxes/dog/c.png")).unwrap();
}

fn mask(folder: &Path, name: &str) -> Vec<String> {
    let picture = image::open(folder.join(name)).unwrap().into_luma8();
    let row = |row: &[u8]| row.iter().map(|&value| if value == 0 { '.' } else { '#' }).collect();
    picture.as_raw().chunks(8).map(row).collect()
}

#[test]
fn boxes_become_masks_and_are_counted() {
    let run = dapple_with("mask pictures --from boxes --out masks", folder);
    assert_snapshot!(run.stdout, @"
    pictures                  3
    without private           1
    without public            1
    private pixels            34.38% (of a picture, 0.00% to 100.00%)
    ");
    let masks = run.folder.path().join("masks");
    assert_eq!(mask(&masks, "cat/a.png")[3], "...##...");
    assert_eq!(mask(&masks, "cat/a.png")[4], "........");
    assert!(mask(&masks, "dog/c.png").iter().all(|row| row == "########"));
    assert!(mask(&masks, "cat/b.png").iter().all(|row| row == "........"));
}

#[test]
fn masks_are_dilated_and_rounded_out_to_tokens() {
    let run = dapple_with(
        "mask pictures --from boxes --dilate 1 --tokens 4 --round-out --out masks --overlay shown --json",
        folder,
    );
    let answer = run.json();
    assert_eq!((&answer["tokens"]["tokens"], &answer["tokens"]["private_tokens"]), (&12.into(), &8.into()));
    assert_eq!(answer["private_pixels"], 128);
    assert!(mask(&run.folder.path().join("masks"), "cat/a.png").iter().all(|row| row == "########"));
    let shown = image::open(run.folder.path().join("shown/cat/a.png")).unwrap().into_rgb8();
    assert_eq!(shown.get_pixel(0, 0), &image::Rgb([133, 50, 100]));
    let plain = image::open(run.folder.path().join("shown/cat/b.png")).unwrap().into_rgb8();
    assert_eq!(plain.get_pixel(0, 0), &image::Rgb([20, 100, 200]));
}

#[cfg(unix)]
#[test]
fn any_program_that_prints_boxes_is_a_detector() {
    let detector = |answer: &str| {
        let script = format!("#!/bin/sh\ncase \"$1\" in *cat*) {answer};; *) echo '[]';; esac\n");
        move |folder_path: &Path| {
            use std::os::unix::fs::PermissionsExt;
            folder(folder_path);
            let path = folder_path.join("detect");
            std::fs::write(&path, &script).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
    };
    let run = |answer| dapple_with("mask pictures --detector ./detect --out masks --quiet", detector(answer));
    let good = run("echo x,y,w,h; echo 0,0,6,1");
    assert_eq!(good.code, 0, "{}", good.stderr);
    assert_eq!(
        mask(&good.folder.path().join("masks"), "cat/b.png")[..3],
        ["#######.", "#######.", "........"]
    );
    assert_eq!(mask(&good.folder.path().join("masks"), "dog/c.png")[0], "........");
    for (answer, said) in [
        ("exit 3", "failed: exit status: 3"),
        ("echo hello", "said something else: its answer.csv: not a mask: no columns xmin"),
        ("echo '{'", "its answer.json: not a mask: EOF"),
        ("exec yes", "said more than 16777216 bytes"),
    ] {
        let bad = run(answer);
        assert_eq!((bad.code, bad.stdout.as_str()), (1, ""), "{said}");
        assert!(bad.stderr.contains(said) && bad.stderr.contains("hint: "), "{said}: {}", bad.stderr);
    }
}

#[test]
fn what_is_no_mask_is_refused_with_its_name() {
    for (file, text, said) in [
        ("boxes/cat/a.json", "{", "boxes/cat/a.json: not a mask: EOF"),
        ("boxes/cat/a.csv", "x,y,w,h\n", "more than one mask named boxes/cat/a.png, .npy, .json or .csv"),
    ] {
        let run = dapple_with("mask pictures --from boxes", |path| {
            folder(path);
            std::fs::write(path.join(file), text).unwrap();
        });
        assert_ne!(run.code, 0);
        assert!(run.stderr.contains(said) && run.stderr.contains("hint: "), "{said}: {}", run.stderr);
    }
    let neither = dapple_with("mask pictures", folder);
    assert_eq!(neither.code, 2);
}

/// Masks and overlays have the names of the pictures, which they must not replace.
#[test]
fn nothing_is_written_over_pictures_or_masks() {
    for (flags, says) in [
        ("--from boxes --out pictures", "--out is the folder of the pictures"),
        ("--from boxes --out ./boxes/../pictures/", "--out is the folder of the pictures"),
        ("--from boxes --overlay pictures", "--overlay is the folder of the pictures"),
        ("--from boxes --out boxes", "--out is the folder of --from"),
        ("--from boxes --out masks --overlay masks", "--overlay is the folder of --out"),
    ] {
        let run = dapple_with(&format!("mask pictures {flags}"), folder);
        assert_eq!(run.code, 2, "{flags}: {}", run.stderr);
        assert!(run.stderr.contains(says) && run.stderr.contains("hint: give"), "{}", run.stderr);
        assert_eq!(run.files(), ["boxes", "pictures"], "{flags}");
    }
}

/// A mask that somebody drew, or another folder's pictures, may have the names of the pictures.
#[test]
fn nothing_that_is_there_is_written_over() {
    for flags in [
        "--from boxes --out drawn",
        "--from boxes --out new --overlay drawn",
        "--from boxes --out pictures/..",
    ] {
        let run = dapple_with(&format!("mask pictures {flags}"), |path| {
            folder(path);
            for name in ["drawn/dog", "dog"] {
                std::fs::create_dir_all(path.join(name)).unwrap();
                std::fs::copy(path.join("boxes/dog/c.png"), path.join(name).join("c.png")).unwrap();
            }
        });
        assert_eq!(run.code, 2, "{flags}: {}", run.stderr);
        assert!(
            run.stderr.contains("dog/c.png is there already") && run.stderr.contains("hint: "),
            "{}",
            run.stderr
        );
        let one = |name: &str| std::fs::read(run.folder.path().join(name)).unwrap();
        assert_eq!(one("drawn/dog/c.png"), one("boxes/dog/c.png"), "{flags}");
        assert_eq!(run.files(), ["boxes", "dog", "drawn", "pictures"], "{flags}: nothing is written at all");
    }
}

/// A folder that is spelled in two ways is still one.
#[test]
fn an_overlay_does_not_replace_its_mask() {
    let run = dapple_with("mask pictures --from boxes --out new --overlay pictures/../new", folder);
    assert_eq!(run.code, 2, "{}", run.stderr);
    assert!(run.stderr.contains("new/cat/a.png is there already"), "{}", run.stderr);
    assert_eq!(mask(&run.folder.path().join("new"), "cat/a.png")[3], "...##...");
}

/// Two pictures whose names differ in their endings alone would have one mask: that of the second, over the first as well.
#[cfg(unix)]
#[test]
fn two_pictures_do_not_share_a_mask() {
    let run = dapple_with("mask pictures --detector echo --out masks", |path| {
        folder(path);
        std::fs::write(path.join("pictures/cat/a.pgm"), "P5\n1 1\n255\n\0").unwrap();
    });
    assert_eq!(run.code, 2, "{}", run.stderr);
    assert!(run.stderr.contains("two pictures would be written as masks/cat/a.png"), "{}", run.stderr);
}

/// The masks that are made of a clip's frames lie where the trainer looks for those of the clip.
#[test]
fn frames_of_clips_are_masked_one_by_one() {
    let frames = |folder: &Path| {
        for class in ["walk", "run"] {
            for name in ["pictures", "boxes"].map(|kind| folder.join(kind).join(class).join("a")) {
                std::fs::create_dir_all(name).unwrap();
            }
            for frame in 0..4u8 {
                let name =
                    |kind: &str, ending: &str| folder.join(format!("{kind}/{class}/a/{frame}.{ending}"));
                let picture = image::RgbImage::from_pixel(8, 8, image::Rgb([50 * frame, 100, 200]));
                picture.save(name("pictures", "png")).unwrap();
                let boxes = format!("xmin,ymin,xmax,ymax\n{frame},2,{},5\n", frame + 2);
                std::fs::write(name("boxes", "csv"), boxes).unwrap();
            }
        }
        let plan = "[privacy]\nrelation = 'masked'\nnoise_multiplier = 1.0\ndelta = 1e-5\n[sampling]\nbatch = 1\nsteps = 2\n\
             [data]\nformat = 'clip-folder'\nframes = 4\nsize = [8, 8]\ntrain = 'pictures'\nmasks = 'masks'\nmean = [0.5, 0.5, 0.5]\nstd = [0.3, 0.3, 0.3]\n\
             [model]\nname = 'small-clip'\n[optimiser]\nlearning_rate = 0.1\n";
        std::fs::write(folder.join("plan.toml"), plan).unwrap();
    };
    let run = dapple_with("mask pictures --from boxes --out masks", frames);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let folder = run.folder.path();
    assert_eq!(mask(&folder.join("masks/run/a"), "2.png")[3], "..###...");
    let train = ["train", "plan.toml", "--out", "run", "--device", "cpu", "--quiet"];
    let trained =
        Command::new(env!("CARGO_BIN_EXE_dapple")).args(train).current_dir(folder).output().unwrap();
    assert!(trained.status.success(), "{}", String::from_utf8_lossy(&trained.stderr));
}

/// A picture brought to another size is still one of which nothing tells which side of a mask is up.
#[test]
fn prepared_pictures_are_still_to_be_turned() {
    use image::{ImageEncoder, codecs::png::PngEncoder};
    let turned = |folder: &Path| {
        std::fs::create_dir_all(folder.join("pictures/cat")).unwrap();
        std::fs::create_dir_all(folder.join("boxes/cat")).unwrap();
        for (name, orientation) in [("cat/a", 1), ("cat/b", 3)] {
            // A directory of one entry: the orientation (0x112), one short number.
            let entry = [0x12, 1, 3, 0, 1, 0, 0, 0, orientation, 0, 0, 0];
            let note = [b"II*\0\x08\0\0\0\x01\0".as_slice(), &entry, &[0; 4]].concat();
            let file = std::fs::File::create(folder.join(format!("pictures/{name}.png"))).unwrap();
            let mut encoder = PngEncoder::new(file);
            encoder.set_exif_metadata(note).unwrap();
            encoder.write_image(&[9; 16 * 8], 16, 8, image::ExtendedColorType::L8).unwrap();
            std::fs::write(folder.join(format!("boxes/{name}.json")), "[]").unwrap();
        }
    };
    let run = dapple_with("prepare pictures --size 8x8 --out prepared", turned);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let folder = run.folder.path();
    let mask = |pictures: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dapple"));
        command.args(["mask", pictures, "--from", "boxes", "--out"]).arg(format!("{pictures}-masks"));
        let output = command.current_dir(folder).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for pictures in ["pictures", "prepared"] {
        let (code, words) = mask(pictures);
        assert_eq!(code, Some(2), "{words}");
        assert!(words.contains(&format!("{pictures}/cat/b.png: the file notes that")), "{words}");
    }
    // Without the turned one, both are taken.
    for pictures in ["pictures", "prepared"] {
        std::fs::remove_file(folder.join(format!("{pictures}/cat/b.png"))).unwrap();
        let _ = std::fs::remove_dir_all(folder.join(format!("{pictures}-masks")));
        assert_eq!(mask(pictures).0, Some(0));
    }
}
