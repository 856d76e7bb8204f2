//! Tests that videos are decoded by a program that is told what to read and not trusted with what it writes. A script stands in for it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::video::Video;
use super::*;
use crate::Values;

/// A program that writes its arguments down and then does what a script says.
fn program(folder: &Path, script: &str) -> PathBuf {
    let path = folder.join("decoder");
    let arguments = folder.join("arguments").display().to_string();
    fs::write(&path, format!("#!/bin/sh\nprintf '%s\\n' \"$@\" > '{arguments}'\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// A video whose decoder runs a script.
fn video(folder: &Path, name: &str, script: &str) -> Video {
    fs::write(folder.join(name), "not really a video").unwrap();
    Video::decoded_by(program(folder, script).into(), folder.join(name))
}

/// A script that writes frames of two pixels whose values are these characters.
fn frames(values: &str) -> String {
    let one = |value: char| format!("printf 'P6\\n2 1\\n255\\n{}'", value.to_string().repeat(6));
    values.chars().map(one).collect::<Vec<_>>().join("\n")
}

fn shown(video: &Video, frames: usize) -> Result<String, String> {
    let image = video.read(frames, &DataLimits::default()).map_err(|error| {
        assert!(error.hint().is_some());
        error.to_string()
    })?;
    let Values::Bytes(values) = image.values() else { panic!("bytes") };
    Ok(values[..frames].iter().map(|&value| char::from(value)).collect())
}

#[test]
fn frames_are_evenly_spaced_and_repeat_in_short_videos() {
    let folder = tempfile::tempdir().unwrap();
    let video = video(folder.path(), "a.avi", &frames("abcdef"));
    assert_eq!(video.frames(&DataLimits::default()).unwrap(), 6);
    for (count, wanted) in [(1, "d"), (2, "be"), (3, "bdf"), (6, "abcdef"), (9, "abbcddeff")] {
        assert_eq!(shown(&video, count).unwrap(), wanted);
    }
}

#[test]
fn the_program_is_told_one_file_one_reader_and_no_protocol_but_files() {
    let folder = tempfile::tempdir().unwrap();
    // A name that would be an option, or a list of files, by itself.
    let name = "-i concat:x|y.mp4";
    assert_eq!(shown(&video(folder.path(), name, &frames("a")), 1).unwrap(), "a");
    let arguments = fs::read_to_string(folder.path().join("arguments")).unwrap();
    let arguments: Vec<&str> = arguments.lines().collect();
    let file = format!("file:{}", fs::canonicalize(folder.path().join(name)).unwrap().display());
    let at = |argument: &str| arguments.iter().position(|found| *found == argument).unwrap();
    assert_eq!(arguments[at("-i") + 1], file);
    assert_eq!(arguments[at("-protocol_whitelist") + 1], "file,pipe");
    assert!(
        arguments[..at("-i")].windows(2).any(|pair| pair == ["-f", "mov"])
            && at("-protocol_whitelist") < at("-i")
    );
}

#[test]
fn what_a_program_writes_is_not_trusted() {
    for (script, problem) in [
        ("exit 0", "a.avi: no frame in it"),
        ("echo 'broken  stream' >&2; exit 1", "a.avi: cannot decode the picture: broken  stream"),
        ("printf 'P6\\n2 1\\n255\\nabc'", "a frame that is cut short"),
        ("printf 'P5\\n2 1\\n255\\nabcdef'", "what the decoder writes is no picture"),
        ("printf 'P6\\n2 1\\n65535\\nabcdef'", "what the decoder writes is no picture"),
        ("head -c 100000 /dev/zero", "what the decoder writes is no picture"),
        ("printf 'P6\\n2 1\\n255\\nabcdefP6\\n1 1\\n255\\nabc'", "a frame of 1x1 among others"),
        ("printf 'P6\\n200000 100000\\n255\\nabc'", "20000000000 pixels, but 67108864 are allowed"),
        ("printf 'P6\\n2 1\\n255\\nabcdef'; exit 3", "ffmpeg cannot decode it"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let error = shown(&video(folder.path(), "a.avi", script), 2).unwrap_err();
        assert!(error.contains(problem), "{script}: {error}");
    }
    // A program that goes on after what was asked of it is stopped.
    let folder = tempfile::tempdir().unwrap();
    let again = folder.path().join("again").display().to_string();
    let endless = format!("{}\nif [ -e '{again}' ]; then yes; fi\ntouch '{again}'", frames("abcd"));
    assert_eq!(shown(&video(folder.path(), "a.avi", &endless), 2).unwrap(), "bd");
}

/// A program that says that it is done and does not end is stopped like one that writes nothing.
#[test]
fn a_program_that_does_not_end_is_stopped() {
    for script in [format!("{}\nexec sleep 60 >&- 2>&-", frames("ab")), "exec sleep 60".to_owned()] {
        let folder = tempfile::tempdir().unwrap();
        let mut video = video(folder.path(), "a.avi", &script);
        video.most_time = std::time::Duration::from_millis(300);
        let error = video.frames(&DataLimits::default()).unwrap_err().to_string();
        assert!(error.contains("ffmpeg was stopped after 0 seconds"), "{error}");
    }
}

#[test]
fn a_missing_program_and_a_missing_file_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.mp4"), "").unwrap();
    let error = Video::decoded_by("no-such-program-as-this".into(), folder.path().join("a.mp4"))
        .read(2, &DataLimits::default())
        .unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("a.mp4: videos are decoded by the program ffmpeg, which is not installed")
    );
    assert!(error.hint().unwrap().starts_with("install ffmpeg, or take the frames out"));
    let gone = Video::new(folder.path().join("b.mp4")).read(2, &DataLimits::default()).unwrap_err();
    assert!(gone.to_string().contains("b.mp4: No such file"), "{gone}");
}

#[test]
fn video_files_are_clips_of_their_folder() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("a")).unwrap();
    for name in ["x.avi", "y.MP4", "z.m3u8"] {
        fs::write(folder.path().join("a").join(name), name).unwrap();
    }
    let clips = Clips::open(folder.path(), None, 2, &DataLimits::default()).unwrap();
    assert_eq!([0, 1].map(|record| clips.name(record).unwrap()), ["a/x.avi", "a/y.MP4"]);
    assert_eq!(clips.len(), 2);
    let masks = folder.path().join("masks");
    let error =
        Clips::open(folder.path(), None, 2, &DataLimits::default()).unwrap().with_masks(&masks).unwrap_err();
    assert!(error.to_string().contains("y.MP4: a video of this kind may be turned"), "{error}");
    let before = clips.fingerprint().unwrap();
    fs::write(folder.path().join("a/x.avi"), "other").unwrap();
    let after = Clips::open(folder.path(), None, 2, &DataLimits::default()).unwrap().fingerprint().unwrap();
    assert_ne!(before, after);
}

/// The number of a frame is that of its mask, so a video of which programs number the frames in several ways has no masks.
#[test]
fn videos_with_uneven_frames_have_no_masks() {
    let stored = |even: &str, stored: &str| {
        format!("case \"$*\" in *passthrough*) {} ;; *) {} ;; esac", frames(stored), frames(even))
    };
    for (even, others, uneven) in [
        ("abcd", "abcd", None),
        ("abbcd", "abcd", Some([5, 4])),
        ("abc", "abcd", Some([3, 4])),
        // One frame is repeated and another left out.
        ("aabd", "abcd", Some([4, 4])),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let video = video(folder.path(), "a.avi", &stored(even, others));
        assert_eq!(video.uneven(&DataLimits::default()).unwrap(), uneven, "{even} {others}");
        assert_eq!(video.frames(&DataLimits::default()).unwrap(), even.len());
    }
    let folder = tempfile::tempdir().unwrap();
    let broken = video(folder.path(), "a.avi", &stored("ab", "a").replace(";; *)", "; exit 1 ;; *)"));
    assert!(broken.uneven(&DataLimits::default()).is_err());
}

/// A webcam that missed three frames: the file stores the others, and the real program, where it is installed, fills the gap.
#[test]
fn a_real_video_with_a_gap_is_refused_beside_masks() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("clips/a")).unwrap();
    fs::create_dir_all(folder.path().join("masks/a")).unwrap();
    for (name, gap) in [("whole", "between(n,90,91)"), ("gap", "between(n,5,7)")] {
        let made = std::process::Command::new("ffmpeg")
            .args([
                "-nostdin",
                "-v",
                "error",
                "-f",
                "lavfi",
                "-i",
                "testsrc=duration=2:rate=10:size=64x48",
                "-vf",
            ])
            .arg(format!("select='not({gap})'"))
            .args(["-fps_mode", "vfr", "-c:v", "mjpeg"])
            .arg(folder.path().join(format!("clips/a/{name}.avi")))
            .status();
        if !made.is_ok_and(|status| status.success()) {
            eprintln!("ffmpeg is not installed here");
            return;
        }
        fs::write(folder.path().join(format!("masks/a/{name}.csv")), "frame,x,y,w,h\n3,1,1,5,5\n").unwrap();
    }
    let clips = Clips::open(&folder.path().join("clips"), None, 4, &DataLimits::default()).unwrap();
    let clips = clips.with_masks(&folder.path().join("masks")).unwrap();
    let size = Size::new(64, 48).unwrap();
    let masks = [0, 1].map(|record| clips.frame_masks(record, size));
    assert_eq!([0, 1].map(|record| clips.name(record).unwrap()), ["a/gap.avi", "a/whole.avi"]);
    let error = masks[0].as_ref().unwrap_err().to_string();
    assert!(error.contains("20 are read, 17 are stored"), "{error}");
    assert_eq!(masks[1].as_ref().unwrap().as_ref().unwrap().len(), 4);
}

/// With the real program, where it is installed.
#[test]
fn a_real_video_is_decoded_frame_by_frame() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.avi");
    let mut pictures = Vec::new();
    for frame in 0..5u8 {
        pictures.extend(b"P6\n32 16\n255\n");
        pictures.extend([40 * frame + 20; 32 * 16 * 3]);
    }
    fs::write(folder.path().join("all.ppm"), pictures).unwrap();
    let made = std::process::Command::new("ffmpeg")
        .args(["-nostdin", "-v", "error", "-f", "ppm_pipe", "-framerate", "5", "-i"])
        .arg(folder.path().join("all.ppm"))
        .args(["-c:v", "rawvideo", "-pix_fmt", "bgr24"])
        .arg(&path)
        .status();
    if !made.is_ok_and(|status| status.success()) {
        eprintln!("ffmpeg is not installed here");
        return;
    }
    let video = Video::new(path);
    assert_eq!(video.frames(&DataLimits::default()).unwrap(), 5);
    let image = video.read(5, &DataLimits::default()).unwrap();
    let Values::Bytes(values) = image.values() else { panic!("bytes") };
    assert_eq!(values[..5], [20, 60, 100, 140, 180]);
    assert_eq!((image.size().width(), image.size().height()), (32, 16));
}
