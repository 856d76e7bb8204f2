//! Video files, decoded by the program `ffmpeg` where it is installed.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use dapple_geometry::Size;
use sha2::{Digest, Sha256};

use super::{CHANNELS, evenly_spaced};
use crate::formats::one_line;
use crate::{DataError, DataLimits, Image, limits};

/// The program that decodes videos.
const PROGRAM: &str = "ffmpeg";
/// The endings of video files, with the only reader that the program may use for each: a file that is something else, such as a list of
/// other files, is not followed.
const READERS: [(&str, &str); 8] = [
    ("avi", "avi"),
    ("mp4", "mov"),
    ("m4v", "mov"),
    ("mov", "mov"),
    ("mkv", "matroska"),
    ("webm", "matroska"),
    ("mpg", "mpeg"),
    ("mpeg", "mpeg"),
];
/// The readers of files that can note that their frames are to be turned where they are shown.
const TURNING: [&str; 2] = ["mov", "matroska"];
/// The most frames of a video. A longer one is a mistake: it is ten hours long.
const MOST_FRAMES: usize = 1 << 20;
/// The longest that one pass over a video may take.
const MOST_TIME: Duration = Duration::from_secs(600);
/// How long to wait before looking again whether a program that has written everything has ended.
const LOOK: Duration = Duration::from_millis(2);
/// The longest line of a picture's header.
const HEADER: u64 = 32;
/// How much of what the program complains about is kept.
const COMPLAINT: u64 = 4096;

/// Which frames a program writes.
#[derive(Debug, Clone, Copy)]
enum FrameRate {
    /// As many as make the video's usual rate: some may be repeated or left out.
    Even,
    /// Each that is stored, once.
    Stored,
}

impl FrameRate {
    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Even => &[],
            Self::Stored => &["-fps_mode", "passthrough"],
        }
    }
}

/// A video file whose frames are counted once.
#[derive(Debug, Clone)]
pub(super) struct Video {
    path: PathBuf,
    program: OsString,
    total: Arc<OnceLock<usize>>,
    /// Frames as they are read and as they are stored, where these are not the same; `None` where they are.
    uneven: Arc<OnceLock<Option<[usize; 2]>>>,
    /// The longest that one pass over it may take.
    pub(super) most_time: Duration,
}

impl Video {
    /// Whether a file of this ending, in small letters, is a video.
    pub(super) fn has(ending: &str) -> bool {
        READERS.iter().any(|(known, _)| *known == ending)
    }

    pub(super) fn new(path: PathBuf) -> Self {
        Self::decoded_by(PROGRAM.into(), path)
    }

    pub(super) fn decoded_by(program: OsString, path: PathBuf) -> Self {
        Self { path, program, total: Arc::default(), uneven: Arc::default(), most_time: MOST_TIME }
    }

    pub(super) fn path(&self) -> &PathBuf {
        &self.path
    }

    /// Whether the file may note that its frames are to be turned, which are taken as they are stored.
    pub(super) fn may_turn(&self) -> bool {
        self.reader().is_none_or(|reader| TURNING.contains(&reader))
    }

    /// The reader that belongs to the ending.
    fn reader(&self) -> Option<&'static str> {
        let ending = self.path.extension()?.to_str()?.to_ascii_lowercase();
        READERS.iter().find(|(known, _)| *known == ending).map(|(_, reader)| *reader)
    }

    /// The number of all frames, at least 1.
    pub(super) fn frames(&self, limits: &DataLimits) -> Result<usize, DataError> {
        if let Some(known) = self.total.get() {
            return Ok(*known);
        }
        let mut total = 0;
        let mut decoder = VideoDecoder::start(self, FrameRate::Even, limits)?;
        while decoder.next(None)?.is_some() {
            total += 1;
            if total > MOST_FRAMES {
                return Err(self.wrong(format!("more than {MOST_FRAMES} frames")));
            }
        }
        decoder.finish()?;
        match total {
            0 => Err(DataError::Empty { path: self.path.clone(), what: "frame" }),
            total => Ok(*self.total.get_or_init(|| total)),
        }
    }

    /// How many frames are read and how many the file stores, unless both are the same frames, one by one. The program repeats and leaves out frames
    /// so that they come at an even rate; other programs number those that are stored.
    pub(super) fn uneven(&self, limits: &DataLimits) -> Result<Option<[usize; 2]>, DataError> {
        if let Some(known) = self.uneven.get() {
            return Ok(*known);
        }
        let all = |rate| {
            let (mut hash, mut frame, mut count) = (Sha256::new(), Vec::new(), 0);
            let mut decoder = VideoDecoder::start(self, rate, limits)?;
            while decoder.next(Some(&mut frame))?.is_some() {
                hash.update(&frame);
                frame.clear();
                count += 1;
                if count > MOST_FRAMES {
                    return Err(self.wrong(format!("more than {MOST_FRAMES} frames")));
                }
            }
            decoder.finish()?;
            Ok((count, hash.finalize()))
        };
        let (read, stored) = (all(FrameRate::Even)?, all(FrameRate::Stored)?);
        let uneven = (read != stored).then_some([read.0, stored.0]);
        Ok(*self.uneven.get_or_init(|| uneven))
    }

    /// Reads frames that are evenly spaced over the video.
    pub(super) fn read(&self, frames: usize, limits: &DataLimits) -> Result<Image, DataError> {
        let total = self.frames(limits)?;
        let mut decoder = VideoDecoder::start(self, FrameRate::Even, limits)?;
        let (mut values, mut size) = (Vec::new(), None);
        // The frame that comes next out of the program, and where the last one that was kept begins.
        let (mut next, mut kept) = (0, 0);
        for number in evenly_spaced(total, frames) {
            let ended = || self.wrong(format!("it ended before frame {number} of {total}"));
            if number < next {
                values.extend_from_within(kept..);
                continue;
            }
            while next < number {
                decoder.next(None)?.ok_or_else(ended)?;
                next += 1;
            }
            kept = values.len();
            let found = decoder.next(Some(&mut values))?.ok_or_else(ended)?;
            limits::clip(limits, found, frames, &self.path)?;
            size = Some(found);
            next += 1;
        }
        let empty = || DataError::Empty { path: self.path.clone(), what: "frame" };
        Image::clip(size.ok_or_else(empty)?, CHANNELS, frames, &values).ok_or_else(empty)
    }

    fn wrong(&self, problem: String) -> DataError {
        DataError::Picture { path: self.path.clone(), problem }
    }

    /// The command that writes every frame as a picture in the format PPM. The arguments are fixed, but for the name of the file, which
    /// begins with its protocol and the root and is neither an option nor another protocol.
    fn command(&self, rate: FrameRate) -> Result<Command, DataError> {
        let reader = self.reader().ok_or_else(|| self.wrong("its ending is that of no video".to_owned()))?;
        let path = std::fs::canonicalize(&self.path).map_err(DataError::io(&self.path))?;
        if !path.is_file() {
            return Err(DataError::NotAFile { path: self.path.clone() });
        }
        let mut file = OsString::from("file:");
        file.push(path);
        let mut command = Command::new(&self.program);
        command
            .args([
                "-nostdin",
                "-v",
                "error",
                "-protocol_whitelist",
                "file,pipe",
                "-noautorotate",
                "-f",
                reader,
                "-i",
            ])
            .arg(file)
            .args(["-map", "0:v:0", "-an", "-sn", "-dn", "-map_metadata", "-1"])
            .args(rate.arguments())
            .args(["-pix_fmt", "rgb24", "-c:v", "ppm", "-f", "image2pipe", "pipe:1"])
            .env_remove("FFREPORT")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Ok(command)
    }
}

/// A running program that hands out one frame after the other. It is stopped when it takes too long, and when it is dropped.
struct VideoDecoder<'a> {
    video: &'a Video,
    limits: &'a DataLimits,
    child: Arc<Mutex<Child>>,
    output: BufReader<ChildStdout>,
    complaint: Option<JoinHandle<String>>,
    /// Dropping it calls the watch off, which says whether it stopped the program.
    watched: Option<(Sender<()>, JoinHandle<bool>)>,
    size: Option<Size>,
}

impl<'a> VideoDecoder<'a> {
    fn start(video: &'a Video, rate: FrameRate, limits: &'a DataLimits) -> Result<Self, DataError> {
        let mut child = video.command(rate)?.spawn().map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => DataError::NoDecoder { path: video.path.clone() },
            _ => DataError::io(Path::new(&video.program))(source),
        })?;
        let pipes = child.stdout.take().zip(child.stderr.take());
        let (output, errors) = pipes.ok_or_else(|| video.wrong("ffmpeg has no output".to_owned()))?;
        let complaint = std::thread::spawn(move || {
            let mut text = Vec::new();
            let mut errors = errors;
            // What cannot be read is no complaint.
            let _ = errors.by_ref().take(COMPLAINT).read_to_end(&mut text);
            let _ = std::io::copy(&mut errors, &mut std::io::sink());
            String::from_utf8_lossy(&text).trim().to_owned()
        });
        let child = Arc::new(Mutex::new(child));
        let (sender, receiver) = channel();
        let (watched, most_time) = (Arc::clone(&child), video.most_time);
        let watch = std::thread::spawn(move || {
            let late = receiver.recv_timeout(most_time) == Err(RecvTimeoutError::Timeout);
            if late {
                stop(&watched);
            }
            late
        });
        Ok(Self {
            video,
            limits,
            child,
            output: BufReader::with_capacity(1 << 16, output),
            complaint: Some(complaint),
            watched: Some((sender, watch)),
            size: None,
        })
    }

    /// The size of the next frame, whose values are added to `values` or passed over; `None` behind the last one.
    fn next(&mut self, values: Option<&mut Vec<u8>>) -> Result<Option<Size>, DataError> {
        let path = &self.video.path;
        let io = |error| DataError::io(path)(error);
        if self.output.fill_buf().map_err(io)?.is_empty() {
            return Ok(None);
        }
        let mut line = || -> Result<String, DataError> {
            let mut text = String::new();
            self.output.by_ref().take(HEADER).read_line(&mut text).map_err(io)?;
            Ok(text)
        };
        let (magic, sides, depth) = (line()?, line()?, line()?);
        let number = |text: Option<&str>| text.and_then(|text| text.parse().ok());
        let mut words = sides.split_whitespace();
        let (Some(width), Some(height), "P6", "255") =
            (number(words.next()), number(words.next()), magic.trim(), depth.trim())
        else {
            return Err(self.video.wrong("what the decoder writes is no picture".to_owned()));
        };
        let size = limits::size(self.limits, width, height, path)?;
        if self.size.is_some_and(|known| known != size) {
            return Err(self.video.wrong(format!("a frame of {size} among others")));
        }
        self.size = Some(size);
        let bytes = size.pixels() * CHANNELS as u64;
        let mut frame = self.output.by_ref().take(bytes);
        let read = match values {
            Some(values) => frame.read_to_end(values).map(|read| read as u64),
            None => std::io::copy(&mut frame, &mut std::io::sink()),
        };
        match read.map_err(io)? {
            read if read == bytes => Ok(Some(size)),
            _ => Err(self.failed("a frame that is cut short")),
        }
    }

    /// Waits for the end of a program that has written everything.
    fn finish(mut self) -> Result<(), DataError> {
        loop {
            // Whoever waits with the lock in hand keeps the watch from stopping the program.
            let status = self.child.lock().unwrap_or_else(PoisonError::into_inner).try_wait();
            match status.map(|status| status.as_ref().map(ExitStatus::success)) {
                Ok(None) => std::thread::sleep(LOOK),
                Ok(Some(true)) => return Ok(()),
                Ok(Some(false)) | Err(_) => return Err(self.failed("ffmpeg cannot decode it")),
            }
        }
    }

    /// The error of a program that ended badly: that it took too long, or what it says itself.
    fn failed(&mut self, otherwise: &str) -> DataError {
        stop(&self.child);
        let late = self.watched.take().is_some_and(|(sender, watch)| {
            drop(sender);
            watch.join().unwrap_or(false)
        });
        let said = self.complaint.take().and_then(|complaint| complaint.join().ok());
        let said = said.filter(|said| !said.is_empty()).unwrap_or_else(|| otherwise.to_owned());
        self.video.wrong(match late {
            true => format!("ffmpeg was stopped after {} seconds", self.video.most_time.as_secs()),
            false => one_line(&said),
        })
    }
}

impl Drop for VideoDecoder<'_> {
    fn drop(&mut self) {
        stop(&self.child);
    }
}

/// Ends a program and waits for it; one that has ended stays so.
fn stop(child: &Mutex<Child>) {
    let mut child = child.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = child.kill();
    let _ = child.wait();
}
