//! What can be wrong with data, where it is wrong, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use dapple_geometry::Size;
use dapple_plan::{Plan, Relation, SettingError};
use thiserror::Error;

/// Why data could not be read, drawn or transformed. The message is one line that names the file, and [`DataError::hint`] says what to do
/// about it.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DataError {
    /// The operating system could not read something.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// Nothing lies where the plan says that records are.
    #[error("`{key}`: there is nothing at {}", path.display())]
    Absent {
        /// The key of the plan.
        key: &'static str,
        /// Where its path leads.
        path: PathBuf,
    },
    /// A folder, a device or a pipe where a file is expected.
    #[error("{}: not a file", path.display())]
    NotAFile {
        /// Its path.
        path: PathBuf,
    },
    /// A file that asks for more than is allowed.
    #[error("{}: {what}, but {limit} are allowed", path.display())]
    Limit {
        /// The file.
        path: PathBuf,
        /// What it asks for.
        what: String,
        /// What is allowed.
        limit: u64,
        /// The key of the plan that allows it.
        key: &'static str,
    },
    /// A label so large that no allowed number of classes contains it.
    #[error("{}: record {record} has label {label}, but at most {limit} classes are told apart", path.display())]
    TooManyClasses {
        /// The file of the labels, or the folder.
        path: PathBuf,
        /// The record, from 0.
        record: usize,
        /// Its label.
        label: i64,
        /// The most classes.
        limit: u32,
    },
    /// A file or folder that is listed twice, because a link leads to it.
    #[error("{} is the same as {}", path.display(), other.display())]
    Twice {
        /// Where it was found last.
        path: PathBuf,
        /// Where it was found first.
        other: PathBuf,
    },
    /// A clip that lies there in two forms.
    #[error("{} is {} in another form, by its name", path.display(), other.display())]
    ClipTwice {
        /// Where it was found last.
        path: PathBuf,
        /// Where it was found first.
        other: PathBuf,
    },
    /// A test set that shares records with the training set.
    #[error("`data.test`: {what}")]
    TestIsTrain {
        /// What they share.
        what: String,
    },
    /// A picture that cannot be a mask.
    #[error("region.mask (--region-mask): {}: {problem}", path.display())]
    Mask {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A file that says nothing about which pixels of an image are private.
    #[error("{}: not a mask: {problem}", path.display())]
    ImageMask {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A file that does not say whose each record is.
    #[error("{}: {problem}", path.display())]
    Users {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A list of records in shards that does not say what it should.
    #[error("{}: {problem}", path.display())]
    ShardList {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
        /// The first line that it should have.
        columns: String,
    },
    /// A record of a shard that does not lie on this machine.
    #[error("{}: there is no such file here; it lies in shard {shard:?}", path.display())]
    OtherShard {
        /// Its path.
        path: PathBuf,
        /// The name of the shard.
        shard: String,
    },
    /// A file that is not the one that a list names.
    #[error("{}: its {what} is not what the list says", path.display())]
    OtherContent {
        /// Its path.
        path: PathBuf,
        /// What is other.
        what: &'static str,
    },
    /// A mask of another size than its image.
    #[error("{}: the mask is {found} pixels, but its image is {expected}", path.display())]
    MaskSize {
        /// The file of the mask.
        path: PathBuf,
        /// Its size.
        found: Size,
        /// The size of the image.
        expected: Size,
    },
    /// An image without a mask, or with several.
    #[error("{place}: {found} named {}.png, .npy, .json or .csv", stem.display())]
    Masks {
        /// Which image.
        place: String,
        /// How many masks there are.
        found: &'static str,
        /// Where its mask should be, without the ending.
        stem: PathBuf,
    },
    /// A picture with a mask, whose camera notes that it is to be turned.
    #[error(
        "{place}: the file notes that the picture is to be turned or mirrored, and its mask may be of either side up"
    )]
    Turned {
        /// Which image.
        place: String,
    },
    /// A file whose first bytes are not those of its format.
    #[error("{}: not {expected}: it begins with {found}", path.display())]
    Magic {
        /// The file.
        path: PathBuf,
        /// What it should be.
        expected: &'static str,
        /// Its first bytes, in hexadecimal digits.
        found: String,
    },
    /// A file that is shorter or longer than its header says.
    #[error("{}: {found} bytes where {expected} are expected{}", path.display(), if found < expected { ", it is cut short" } else { "" })]
    Length {
        /// The file.
        path: PathBuf,
        /// Bytes expected.
        expected: u64,
        /// Bytes found.
        found: u64,
    },
    /// A header that makes no sense, or compressed bytes that do not unpack.
    #[error("{}: {problem}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A picture that does not decode.
    #[error("{}: cannot decode the picture: {problem}", path.display())]
    Picture {
        /// The file.
        path: PathBuf,
        /// What the decoder says.
        problem: String,
    },
    /// A video file without the program that decodes it.
    #[error("{}: videos are decoded by the program ffmpeg, which is not installed", path.display())]
    NoDecoder {
        /// The file.
        path: PathBuf,
    },
    /// A clip that a list names and that is not there.
    #[error("{}: no clip: neither a file or folder of this name, nor a folder or an array (.npy) of it without its ending", path.display())]
    NoClip {
        /// Where it should be.
        path: PathBuf,
    },
    /// A label that is negative or not below the number of classes.
    #[error("{}: record {record} has label {label}, but there are {classes} classes", path.display())]
    Label {
        /// The file of the labels.
        path: PathBuf,
        /// The record, from 0.
        record: usize,
        /// Its label.
        label: i64,
        /// The number of classes.
        classes: u32,
    },
    /// Images and labels that differ in number.
    #[error("{} holds {images} images, but {} holds {labels} labels", path.display(), labels_path.display())]
    Counts {
        /// The file of the images.
        path: PathBuf,
        /// How many it holds.
        images: usize,
        /// The file of the labels.
        labels_path: PathBuf,
        /// How many it holds.
        labels: usize,
    },
    /// A number of classes other than the plan's.
    #[error("{}: {found} classes where the plan says {expected}", path.display())]
    Classes {
        /// The file or folder.
        path: PathBuf,
        /// The plan's number.
        expected: u32,
        /// The number found.
        found: u32,
    },
    /// A data set, folder or file without records.
    #[error("{}: no {what} in it", path.display())]
    Empty {
        /// The file or folder.
        path: PathBuf,
        /// What is missing.
        what: &'static str,
    },
    /// An image of another size than the plan's.
    #[error("{place} is {found} pixels where {expected} are expected")]
    ImageSize {
        /// Which image.
        place: String,
        /// Its size.
        found: Size,
        /// The expected size.
        expected: Size,
    },
    /// An image outside the range of sizes that the plan declares.
    #[error("{place} is {found} pixels, but `pipeline.sizes` allows {least} to {most}")]
    OutsideSizes {
        /// Which image.
        place: String,
        /// Its size.
        found: Size,
        /// The least width and height.
        least: Size,
        /// The largest width and height.
        most: Size,
    },
    /// Images of several sizes, where the price of a crop needs one.
    #[error(
        "images of several sizes: {one} is {size} pixels, {other} is {found}, and the price of a crop needs one size"
    )]
    MixedSizes {
        /// The first image.
        one: String,
        /// Its size.
        size: Size,
        /// The first image of another size.
        other: String,
        /// Its size.
        found: Size,
    },
    /// A label map of another size than its image.
    #[error("the label map of {place} is {found} pixels, but the image is {expected}")]
    LabelSize {
        /// Which image.
        place: String,
        /// The size of its label map.
        found: Size,
        /// The size of the image.
        expected: Size,
    },
    /// An image without its label picture, or a label picture without its image.
    #[error("{} has no partner {}", path.display(), missing.display())]
    Partner {
        /// The picture.
        path: PathBuf,
        /// Where the other one should be.
        missing: PathBuf,
    },
    /// A label picture whose pixels are not plain numbers of at most 8 bits.
    #[error("{}: {found} where one label of 8 bits a pixel is expected", path.display())]
    LabelFormat {
        /// The file.
        path: PathBuf,
        /// What it shows.
        found: &'static str,
    },
    /// A pixel of a label picture that is neither a class nor ignored.
    #[error("{}: the label {found} at column {x}, row {y} is neither a class nor ignored", path.display())]
    LabelId {
        /// The file.
        path: PathBuf,
        /// Column of the first such pixel.
        x: usize,
        /// Its row.
        y: usize,
        /// The number or the colour.
        found: String,
    },
    /// A record that has a label map where one class is asked for, or the other way round.
    #[error("{place} has {found} where {expected} is asked for")]
    TargetKind {
        /// Which image.
        place: String,
        /// What it has.
        found: &'static str,
        /// What is asked for.
        expected: &'static str,
    },
    /// An image with another number of channels than its data set.
    #[error("{place} has {found} channels where {expected} are expected")]
    Channels {
        /// Which image, or which setting.
        place: String,
        /// Its channels.
        found: usize,
        /// The expected number.
        expected: usize,
    },
    /// A clip of another length than expected, or an image in the place of a clip.
    #[error("{place}: {} where {} is expected", length(*found), length(*expected))]
    Frames {
        /// Which clip, or which image.
        place: String,
        /// Its frames; `None` for an image.
        found: Option<usize>,
        /// The expected number.
        expected: Option<usize>,
    },
    /// A key of the plan that is missing or does not fit the data.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// A batch larger than the data set.
    #[error("a batch of {batch} cannot be drawn from {records} records")]
    BatchTooLarge {
        /// The batch.
        batch: u64,
        /// Records there are.
        records: u64,
    },
    /// A data set of another size than the plan was priced for.
    #[error("the plan is for {plan} records, but the data set has {data}")]
    Records {
        /// The plan's number.
        plan: u64,
        /// The data set's.
        data: u64,
    },
    /// Another number of users than the plan was priced for.
    #[error("the plan is for {plan} users, but the data set has {data}")]
    UserCount {
        /// The plan's number.
        plan: u64,
        /// The data set's.
        data: u64,
    },
    /// An operation that the plan prices, but that cannot be carried out here.
    #[error("the operation `{operation}` is priced but cannot be carried out: {reason}")]
    Operation {
        /// Its name.
        operation: &'static str,
        /// Why it cannot be carried out.
        reason: &'static str,
    },
    /// A step beyond the end of the plan.
    #[error("step {step} of a plan of {steps} steps")]
    Step {
        /// The step, from 0.
        step: u64,
        /// Steps of the plan.
        steps: u64,
    },
    /// A record beyond the end of the data set.
    #[error("record {record} of a data set of {records}")]
    Record {
        /// The record, from 0.
        record: usize,
        /// Records there are.
        records: usize,
    },
    /// Sizes that do not fit together.
    #[error("{place}: {source}")]
    Geometry {
        /// Which image, or which part of the plan.
        place: String,
        /// What the geometry says.
        source: dapple_geometry::GeometryError,
    },
    /// The operating system gives no random bytes.
    #[error("the operating system gives no random bytes: {source}")]
    Randomness {
        /// What it says.
        source: getrandom::Error,
    },
    /// The threads of the loader could not be started, or one of them was lost.
    #[error("the loader's threads failed: {problem}")]
    Threads {
        /// What happened.
        problem: String,
    },
}

impl DataError {
    /// The error of a key of the plan that is needed but not given.
    #[must_use]
    pub fn missing(key: &'static str, why: impl Into<String>) -> Self {
        SettingError::missing(key, why).into()
    }

    /// The error of a key of the plan whose value makes no sense.
    #[must_use]
    pub fn setting(key: &'static str, problem: impl Into<String>) -> Self {
        SettingError::refused(key, problem).into()
    }

    /// The error of a data set with another number of records, or of users where the plan draws these, than the plan was priced for.
    #[must_use]
    pub fn size(plan: &Plan, data: u64) -> Self {
        match plan.relation() {
            Relation::User => Self::UserCount { plan: plan.records(), data },
            _ => Self::Records { plan: plan.records(), data },
        }
    }

    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }

    pub(crate) fn malformed(path: &Path, problem: impl Into<String>) -> Self {
        Self::Malformed { path: path.to_owned(), problem: problem.into() }
    }

    pub(crate) fn geometry(place: impl Into<String>) -> impl FnOnce(dapple_geometry::GeometryError) -> Self {
        let place = place.into();
        move |source| Self::Geometry { place, source }
    }

    /// The same error with its place filled in, if it is about an image. Code that sees only pixels does not know the place.
    #[must_use]
    pub fn at(self, place: impl FnOnce() -> String) -> Self {
        match self {
            Self::ImageSize { found, expected, .. } => Self::ImageSize { place: place(), found, expected },
            Self::OutsideSizes { found, least, most, .. } => {
                Self::OutsideSizes { place: place(), found, least, most }
            }
            Self::LabelSize { found, expected, .. } => Self::LabelSize { place: place(), found, expected },
            Self::Channels { found, expected, .. } => Self::Channels { place: place(), found, expected },
            Self::Frames { found, expected, .. } => Self::Frames { place: place(), found, expected },
            Self::Geometry { source, .. } => Self::Geometry { place: place(), source },
            Self::Turned { .. } => Self::Turned { place: place() },
            other => other,
        }
    }

    /// What to do about it, where something can be done.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Io { .. } => "check the path in the [data] section and who may read it".into(),
            Self::Absent { path, .. } => beside(path),
            Self::NotAFile { .. } => "give a file; what a device or a pipe says can be written into one first".into(),
            Self::Limit { key, .. } => {
                format!("if the file is right, raise `{key}` in the plan; otherwise take it out")
            }
            Self::TooManyClasses { .. } => "check the labels, and say in `data.classes` how many there are".into(),
            Self::Twice { .. } => "take one of them out: a record that counts twice is protected half as well".into(),
            Self::ClipTwice { .. } => {
                "take one of them out, because a record that counts twice is protected half as well; or, if they are two clips, give one another name".into()
            }
            Self::TestIsTrain { .. } => {
                "give records that are not trained on, leave `data.test` out, or set `data.validation = 0.1`".into()
            }
            Self::Mask { .. } => {
                "give a PNG picture in which white marks private pixels and black the rest".into()
            }
            Self::ImageMask { .. } => {
                "a mask is a PNG picture or an array in which what is not zero is private, run lengths as of COCO, or boxes in JSON or CSV"
                    .into()
            }
            Self::Users { .. } => {
                "users are told by a table (.csv) with a first line `file,user` or `record,user` and one line for each training record, or by an array (.npy) of one whole number for each"
                    .into()
            }
            Self::ShardList { columns, .. } => format!(
                "a list of such records in shards has a first line `{columns}` and one line for each; `dapple data list` writes it"
            ),
            Self::OtherShard { .. } => {
                "copy the shard to this machine, or train on ranks that have all shards among them (`mpirun -n 2 dapple train ..`)".into()
            }
            Self::OtherContent { .. } => {
                "copy the file again from where the list was made, or make the list anew".into()
            }
            Self::MaskSize { .. } => "a mask has one pixel for each pixel of its image".into(),
            Self::Masks { .. } => {
                "every image has one mask of its name; for an image without private pixels it is all black, or has no boxes".into()
            }
            Self::Turned { .. } => {
                "turn the pixels themselves and drop the note (`mogrify -auto-orient`, `exiftran -ai`), and make the mask of that".into()
            }
            Self::Magic { .. } => "check `data.format`, and that images and labels are not exchanged".into(),
            Self::Length { .. } => "the file was cut short or is another one; fetch it again".into(),
            Self::Malformed { .. } | Self::Picture { .. } => "fetch the file again, or take it out".into(),
            Self::Label { .. } | Self::Classes { .. } => {
                "check `data.classes`; labels count from 0".into()
            }
            Self::Counts { .. } => "give the labels that belong to these images".into(),
            Self::Empty { .. } => {
                "an image folder has one folder of pictures (png, jpg, webp, ppm, pgm) a class, image pairs have a folder `images` and a folder `labels`, and a clip is a folder of pictures, an array (.npy) or a video"
                    .into()
            }
            Self::ImageSize { .. } => {
                "inclusion probabilities are those of one image size: bring all images to it (`dapple prepare`), or set `pipeline.image`"
                    .into()
            }
            Self::OutsideSizes { .. } => {
                "declare a wider range, bring the image into it (`dapple prepare`), or take it out; `dapple check PLAN` lists all sizes".into()
            }
            Self::MixedSizes { size, .. } => format!(
                "declare a range of sizes in `pipeline.sizes`, or bring all images to one: `dapple prepare FOLDER --size {size} --out OTHER`; `dapple check PLAN` lists the sizes"
            ),
            Self::LabelSize { .. } => "a label map has one pixel for each pixel of its image".into(),
            Self::Partner { .. } => {
                "every image has a label map of the same name, and every label map an image".into()
            }
            Self::LabelFormat { .. } => {
                "save label maps as 8-bit grey or palette PNG whose values are the classes".into()
            }
            Self::LabelId { .. } => {
                "check `data.classes` and `data.class_ids`; `data.ignore` names what counts for nothing".into()
            }
            Self::TargetKind { .. } => {
                "a classifier needs one class an image, a segmentation model a label map an image".into()
            }
            Self::Channels { .. } => "give one value a channel in `data.mean` and `data.std`".into(),
            Self::NoDecoder { .. } => {
                "install ffmpeg, or take the frames out of the videos beforehand: a folder of pictures or an array a clip".into()
            }
            Self::NoClip { .. } => "check `data.train` and `data.test`, which are the folder that the lists begin in".into(),
            Self::Frames { .. } => "give clips to a model of clips, and images to a model of images".into(),
            Self::Setting(source) => source.hint(),
            Self::BatchTooLarge { records, .. } => format!("give a batch of at most {records}"),
            Self::Records { data, .. } | Self::UserCount { data, .. } => {
                format!("set `sampling.records = {data}`, or leave it out")
            }
            Self::Operation { .. } => "carry it out on the files beforehand, or leave it out".into(),
            Self::Geometry { source, .. } => return source.hint(),
            Self::Step { .. } | Self::Record { .. } | Self::Randomness { .. } | Self::Threads { .. } => {
                return None;
            }
        })
    }
}

/// What lies beside a path that leads nowhere: most are a slip of the pen, or start in another folder than was meant.
fn beside(path: &Path) -> String {
    let start = "paths in a plan start in the folder of its file, and paths that are typed start where they are typed";
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(entries) = std::fs::read_dir(folder) else { return start.to_owned() };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
    names.sort();
    let shown = names.iter().take(6).cloned().collect::<Vec<_>>().join(", ");
    match names.len() {
        0 => start.to_owned(),
        count => {
            format!("{} holds {shown}{}; {start}", folder.display(), if count > 6 { ", .." } else { "" })
        }
    }
}

/// A length of clips in words.
fn length(frames: Option<usize>) -> String {
    match frames {
        None => "an image".to_owned(),
        Some(1) => "a clip of 1 frame".to_owned(),
        Some(frames) => format!("a clip of {frames} frames"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_one_line_that_names_the_file() {
        let path = PathBuf::from("train-images.gz");
        for error in [
            DataError::Length { path: path.clone(), expected: 16, found: 3 },
            DataError::Label { path: path.clone(), record: 7, label: 10, classes: 10 },
            DataError::malformed(&path, "it has 4 dimensions"),
        ] {
            let text = error.to_string();
            assert!(text.starts_with("train-images.gz") && !text.contains('\n'), "{text}");
            assert!(error.hint().is_some());
        }
    }
}
