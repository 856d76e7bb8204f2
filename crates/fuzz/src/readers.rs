//! Every reader of files, held to small limits.

use std::path::Path;
use std::sync::OnceLock;

use dapple_data::formats::{
    ImageFolder, Npy, ShardedArrays, ShardedClips, ShardedImages, ShardedPairs, cifar, decode, decode_mask,
    idx,
};
use dapple_data::segmentation::{ClassMap, a2d2};
use dapple_data::{DataError, DataLimits, Dataset, clips, masks, read_users};
use dapple_graph::{Graph, GraphError, Parameters, weights};
use dapple_plan::{Plan, PlanError, PlanSpec};
use dapple_train::{History, RunCertificate, readers};
use image::ImageFormat;
use sha2::{Digest, Sha256};

use crate::corpus;

/// What every reader may take here. It is so little that a file of a few bytes could ask for more.
const LIMITS: DataLimits = DataLimits { pixels: 1 << 14, bytes: 1 << 16 };

/// The largest side of an image for which a plan is checked and not only read.
const LARGEST_SIDE: u32 = 1 << 12;

/// Why a file was refused.
#[derive(Debug)]
pub struct Refusal {
    /// The reason, in one line.
    pub message: String,
    /// The way out, where one is known.
    pub hint: Option<String>,
}

/// A reader of files.
pub struct Reader {
    /// What it reads.
    pub name: &'static str,
    /// Valid files, or what is close to them.
    pub corpus: fn() -> Vec<Vec<u8>>,
    /// Reads some bytes; `folder` is a place for files.
    pub read: fn(&[u8], &Path) -> Result<(), Refusal>,
}

/// Every reader.
pub const READERS: &[Reader] = &[
    Reader { name: "plan", corpus: corpus::plans, read: plan },
    Reader { name: "ledger", corpus: || vec![corpus::run().ledger.clone()], read: ledger },
    Reader { name: "checkpoint", corpus: || vec![corpus::run().checkpoint.clone()], read: checkpoint },
    Reader { name: "description", corpus: || vec![corpus::run().description.clone()], read: description },
    Reader { name: "certificate", corpus: || vec![corpus::run().certificate.clone()], read: certificate },
    Reader { name: "safetensors", corpus: corpus::weight_files, read: safetensors },
    Reader { name: "png", corpus: || corpus::pictures(ImageFormat::Png), read: picture },
    Reader { name: "jpeg", corpus: || corpus::pictures(ImageFormat::Jpeg), read: picture },
    Reader { name: "webp", corpus: || corpus::pictures(ImageFormat::WebP), read: picture },
    Reader { name: "portable map", corpus: corpus::portable_maps, read: picture },
    Reader { name: "npy", corpus: corpus::arrays, read: npy },
    Reader { name: "idx", corpus: corpus::idx, read: idx_file },
    Reader { name: "cifar", corpus: corpus::cifar, read: cifar_file },
    Reader { name: "list", corpus: corpus::lists, read: list },
    Reader { name: "shards", corpus: corpus::shard_lists, read: shards },
    Reader { name: "pair shards", corpus: corpus::pair_shard_lists, read: pair_shards },
    Reader { name: "array shards", corpus: corpus::array_shard_lists, read: array_shards },
    Reader { name: "clip shards", corpus: corpus::clip_shard_lists, read: clip_shards },
    Reader { name: "users", corpus: corpus::user_tables, read: users },
    Reader { name: "mask", corpus: || corpus::pictures(ImageFormat::Png), read: mask },
    Reader { name: "image mask", corpus: corpus::image_masks, read: image_mask },
    Reader { name: "clip", corpus: corpus::clips, read: clip },
    Reader { name: "clip masks", corpus: corpus::clip_masks, read: clip_masks },
    Reader { name: "label map", corpus: corpus::label_pictures, read: label_map },
];

impl From<DataError> for Refusal {
    fn from(error: DataError) -> Self {
        Self { message: error.to_string(), hint: error.hint() }
    }
}

impl From<PlanError> for Refusal {
    fn from(error: PlanError) -> Self {
        Self { message: error.to_string(), hint: error.hint() }
    }
}

impl From<GraphError> for Refusal {
    fn from(error: GraphError) -> Self {
        Self { message: error.to_string(), hint: error.hint() }
    }
}

fn plan(bytes: &[u8], _: &Path) -> Result<(), Refusal> {
    let spec = PlanSpec::from_toml(&String::from_utf8_lossy(bytes))?;
    let again = PlanSpec::from_toml(&spec.to_toml())?;
    assert_eq!(format!("{spec:?}"), format!("{again:?}"), "a plan is read back as it was written");
    // The geometry takes memory for each pixel of a side, up to a limit of its own.
    if spec.pipeline.image.is_none_or(|image| image.x.max(image.y) <= LARGEST_SIDE) {
        Plan::check(&spec)?;
    }
    Ok(())
}

/// Reads the bytes as they are, and again as lines whose hashes are made right, so that what they say is looked at.
fn ledger(bytes: &[u8], _: &Path) -> Result<(), Refusal> {
    let mut chained = Vec::new();
    let mut hash = "0".repeat(64);
    for body in bytes.split(|&byte| byte == b'\n') {
        let digest = Sha256::new().chain_update(&hash).chain_update(body).finalize();
        hash = dapple_plan::number::hexadecimal(&digest);
        chained.extend(format!("{{\"hash\":\"{hash}\",\"entry\":").into_bytes());
        chained.extend_from_slice(body);
        chained.extend(b"}\n");
    }
    let _ = History::read(bytes);
    let refused = |error: dapple_train::LedgerError| Refusal {
        message: error.to_string(),
        hint: Some(error.hint().to_owned()),
    };
    let history = History::read(&chained).map_err(refused)?;
    assert!(history.spent() <= history.start().steps, "no more is spent than the plan has");
    Ok(())
}

/// Reads the bytes as they are, and again with their checksum made right, so that what they say is looked at.
fn checkpoint(bytes: &[u8], _: &Path) -> Result<(), Refusal> {
    let _ = readers::checkpoint(bytes);
    readers::sealed_checkpoint(bytes.to_vec()).map_err(|message| Refusal { message, hint: None })
}

fn description(bytes: &[u8], _: &Path) -> Result<(), Refusal> {
    readers::description(bytes).map_err(|message| Refusal { message, hint: None })
}

fn certificate(bytes: &[u8], _: &Path) -> Result<(), Refusal> {
    let text = String::from_utf8_lossy(bytes);
    let read = RunCertificate::from_json(&text).map_err(|message| Refusal { message, hint: None })?;
    let again = RunCertificate::from_json(&read.to_json());
    assert!(again.is_ok_and(|again| again == read), "a certificate is read back as it was written");
    Ok(())
}

fn safetensors(bytes: &[u8], _: &Path) -> Result<(), Refusal> {
    static MODEL: OnceLock<Option<Graph>> = OnceLock::new();
    let model = MODEL.get_or_init(|| corpus::model().ok());
    assert!(model.is_some(), "the model can be made");
    if let Some(model) = model {
        // What is read strictly is read leniently, to the same values.
        let fitted = weights::read_fitting(model, bytes, Parameters::zeros(model));
        let read = weights::read(model, bytes)?;
        let same = |fitted: &weights::Fitted| {
            let bits = |values: &Parameters| values.values().iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            fitted.fresh.is_empty() && bits(&fitted.parameters) == bits(&read)
        };
        assert!(fitted.as_ref().is_ok_and(same), "a file that fits gives the whole model");
    }
    Ok(())
}

fn picture(bytes: &[u8], _: &Path) -> Result<(), Refusal> {
    let mended = mended_png(bytes);
    decode(&mended, Path::new("picture"), &LIMITS)?;
    Ok(())
}

fn mask(bytes: &[u8], _: &Path) -> Result<(), Refusal> {
    decode_mask(&mended_png(bytes), Path::new("mask"), &LIMITS)?;
    Ok(())
}

/// Reads the bytes as every kind of file that may hold the mask of an image.
fn image_mask(bytes: &[u8], _: &Path) -> Result<(), Refusal> {
    let picture = &corpus::pictures(ImageFormat::Png)[0];
    let size = decode(picture, Path::new("picture"), &LIMITS)?.size();
    let mut refused = None;
    let mut read = 0;
    for ending in masks::ENDINGS {
        match masks::decode_image_mask(
            &mended_png(bytes),
            &Path::new("mask").with_extension(ending),
            size,
            &LIMITS,
        ) {
            Ok(mask) => {
                assert_eq!(mask.size(), size, "a mask is as large as its image");
                read += 1;
            }
            Err(error) => refused = Some(error),
        }
    }
    match refused {
        Some(error) if read == 0 => Err(error.into()),
        _ => Ok(()),
    }
}

/// Reads an array as a clip of three frames.
fn clip(bytes: &[u8], folder: &Path) -> Result<(), Refusal> {
    let path = folder.join("clip.npy");
    std::fs::write(&path, bytes).map_err(|error| Refusal { message: error.to_string(), hint: None })?;
    let image = clips::read_clip(&path, 3, &LIMITS)?;
    assert_eq!((image.frames(), image.channels()), (Some(3), 3), "a clip has the frames that were asked for");
    Ok(())
}

/// Reads the bytes as every kind of file that may hold the masks of a clip of five frames.
fn clip_masks(bytes: &[u8], _: &Path) -> Result<(), Refusal> {
    let picture = &corpus::pictures(ImageFormat::Png)[0];
    let size = decode(picture, Path::new("picture"), &LIMITS)?.size();
    let frames = masks::ClipFrames { total: 5, shown: &[0, 2, 4], size };
    let mut refused = None;
    let mut read = 0;
    for ending in masks::ENDINGS {
        let path = Path::new("masks").with_extension(ending);
        match masks::clip_masks(&mended_png(bytes), &path, frames, &LIMITS) {
            Ok(found) => {
                assert!([1, 3].contains(&found.len()) && found.iter().all(|mask| mask.size() == size));
                read += 1;
            }
            Err(error) => refused = Some(error),
        }
    }
    match refused {
        Some(error) if read == 0 => Err(error.into()),
        _ => Ok(()),
    }
}

fn label_map(bytes: &[u8], folder: &Path) -> Result<(), Refusal> {
    // A list of classes is read from a file beside the pictures.
    let _ = std::fs::write(folder.join("class_list.json"), bytes);
    let _ = a2d2(folder, &[], &LIMITS);
    let map = ClassMap::of_ids(&[0, 1, 2], &[255])?;
    map.read(&mended_png(bytes), Path::new("labels"), &LIMITS)?;
    Ok(())
}

fn npy(bytes: &[u8], folder: &Path) -> Result<(), Refusal> {
    let files = Files::new(bytes, folder, &corpus::arrays()[2])?;
    let _ = Npy::open(&files.good, &files.damaged, None, &LIMITS).map(|data| read_all(&data));
    read_all(&Npy::open(&files.damaged, &files.good, None, &LIMITS)?)
}

fn idx_file(bytes: &[u8], folder: &Path) -> Result<(), Refusal> {
    let files = Files::new(bytes, folder, &corpus::idx()[2])?;
    let _ = idx(&files.good, &files.damaged, None, &LIMITS).map(|data| read_all(&data));
    read_all(&idx(&files.damaged, &files.good, None, &LIMITS)?)
}

fn cifar_file(bytes: &[u8], folder: &Path) -> Result<(), Refusal> {
    let files = Files::new(bytes, folder, &[])?;
    read_all(&cifar(&[files.damaged], None, &LIMITS)?)
}

fn list(bytes: &[u8], folder: &Path) -> Result<(), Refusal> {
    let files = Files::new(bytes, folder, b"P5\n1 1\n255\n\0")?;
    let _ = std::fs::copy(&files.good, folder.join("a.pgm"));
    read_all(&ImageFolder::open_list(folder, &files.damaged, &LIMITS)?)
}

/// Reads the bytes as a list of one picture that lies there, whose content it may not know.
fn shards(bytes: &[u8], folder: &Path) -> Result<(), Refusal> {
    let files = Files::new(bytes, folder, corpus::DOT)?;
    let _ = std::fs::copy(&files.good, folder.join("a.pgm"));
    in_shards(&ShardedImages::open(folder, &files.damaged, &LIMITS)?)
}

/// Reads the bytes as a list of one picture with a label map, both of which lie there.
fn pair_shards(bytes: &[u8], folder: &Path) -> Result<(), Refusal> {
    let files = Files::new(bytes, folder, &corpus::grey_dot())?;
    for place in ["images", "labels"] {
        let _ = std::fs::create_dir_all(folder.join(place));
        let _ = std::fs::copy(&files.good, folder.join(place).join("a.png"));
    }
    let map = ClassMap::of_ids(&[0], &[])?;
    in_shards(&ShardedPairs::open(folder, &files.damaged, map, &LIMITS)?)
}

/// Reads the bytes as a list of the records of an array that lies there.
fn array_shards(bytes: &[u8], folder: &Path) -> Result<(), Refusal> {
    let files = Files::new(bytes, folder, &corpus::image_array())?;
    let _ = std::fs::copy(&files.good, folder.join("a.npy"));
    in_shards(&ShardedArrays::open(folder, &files.damaged, None, &LIMITS)?)
}

/// Reads the bytes as a list of one clip that lies there.
fn clip_shards(bytes: &[u8], folder: &Path) -> Result<(), Refusal> {
    let files = Files::new(bytes, folder, &corpus::image_array())?;
    let _ = std::fs::copy(&files.good, folder.join("a.npy"));
    in_shards(&ShardedClips::open(folder, &files.damaged, None, 2, &LIMITS)?)
}

/// Reads records that a list names.
fn in_shards(records: &dyn Dataset) -> Result<(), Refusal> {
    records.fingerprint()?;
    (0..records.len()).try_for_each(|record| {
        assert!(records.shard(record).is_some_and(|shard| !shard.is_empty()), "every record has a shard");
        records.read(record)?;
        Ok(records.target(record).map(drop)?)
    })
}

/// Reads the bytes as a table and as an array of the users of one picture.
fn users(bytes: &[u8], folder: &Path) -> Result<(), Refusal> {
    let files = Files::new(bytes, folder, b"P5\n1 1\n255\n\0")?;
    let _ = std::fs::create_dir_all(folder.join("pictures/b"));
    let _ = std::fs::copy(&files.good, folder.join("pictures/b/a.pgm"));
    let pictures = ImageFolder::open(&folder.join("pictures"), &LIMITS)?;
    let array = folder.join("users.npy");
    let _ = std::fs::write(&array, bytes);
    let as_array = read_users(&array, &pictures, &LIMITS);
    let users = read_users(&files.damaged, &pictures, &LIMITS).or(as_array)?;
    assert!(users.len() == 1 && users.records(0) == [0], "the picture has one user");
    Ok(())
}

/// A damaged file, and a good one that goes with it.
struct Files {
    damaged: std::path::PathBuf,
    good: std::path::PathBuf,
}

impl Files {
    fn new(bytes: &[u8], folder: &Path, good: &[u8]) -> Result<Self, Refusal> {
        let files = Self { damaged: folder.join("damaged"), good: folder.join("good") };
        let failed =
            |error: std::io::Error| Refusal { message: error.to_string(), hint: Some(String::new()) };
        std::fs::write(&files.damaged, bytes).map_err(failed)?;
        if !files.good.exists() {
            std::fs::write(&files.good, good).map_err(failed)?;
        }
        Ok(files)
    }
}

/// Reads the first records as training would.
fn read_all(data: &dyn Dataset) -> Result<(), Refusal> {
    data.fingerprint()?;
    for record in 0..data.len().min(3) {
        assert!(data.label(record)? < data.classes(), "a label is below the number of classes");
        data.read(record)?;
    }
    Ok(())
}

/// The picture with right checksums where it is a PNG with an odd length: otherwise most damage goes no farther than the first of them.
fn mended_png(bytes: &[u8]) -> Vec<u8> {
    let mut mended = bytes.to_vec();
    if !bytes.starts_with(b"\x89PNG\r\n\x1a\n") || bytes.len().is_multiple_of(2) {
        return mended;
    }
    let mut at = 8;
    while let Some(&[a, b, c, d]) = mended.get(at..at + 4) {
        let Some(end) = (at + 8).checked_add(u32::from_be_bytes([a, b, c, d]) as usize) else { break };
        let Some(chunk) = mended.get(at + 4..end) else { break };
        let mut crc = flate2::Crc::new();
        crc.update(chunk);
        let sum = crc.sum().to_be_bytes();
        let Some(place) = mended.get_mut(end..end + 4) else { break };
        place.copy_from_slice(&sum);
        at = end + 4;
    }
    mended
}
