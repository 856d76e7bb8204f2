//! Valid files of every format, as small as they can be.

use std::io::{Cursor, Write};
use std::ops::ControlFlow;
use std::sync::OnceLock;

use dapple_graph::{Graph, GraphBuilder, GraphError, Init, Loss, Parameters, weights};
use dapple_plan::PlanSpec;
use dapple_plan::number::hexadecimal;
use dapple_train::{Event, Observer, Request, Silent, resume, start};
use image::{ImageFormat, RgbImage};
use sha2::{Digest, Sha256};

/// The model whose weights are read: so small that its names and shapes are most of the file.
pub(crate) fn model() -> Result<Graph, GraphError> {
    let mut builder = GraphBuilder::new(&[4]);
    let hidden = builder.linear("fc1", builder.input(), 3, Init::Constant(0.5), Init::Constant(0.5))?;
    let out = builder.linear("fc2", hidden, 2, Init::Constant(0.5), Init::Constant(0.5))?;
    builder.finish(out, Loss::CrossEntropy { label_smoothing: 0.0 })
}

pub(crate) fn plans() -> Vec<Vec<u8>> {
    let texts = [
        "[privacy]\nrelation = \"patch\"\ndelta = \"1/n\"\nnoise_multiplier = 1.0\n[region]\npatch = [10, 10]\n[pipeline]\nimage = [64, 48]\ncrop = [32, 32]\nviews = 2\noperations = [\"pad 2 reflect\", \"blur 1\"]\n[sampling]\nscheme = \"poisson\"\nbatch = 20\nrecords = 300\nepochs = 2\n",
        "[privacy]\nepsilon = 2.0\ndelta = 1e-5\nmax_grad_norm = 1\n[pipeline]\ncrop_scale = [0.1, 1.0]\ncrop_ratio = [0.75, 1.3]\n[sampling]\nscheme = \"balanced\"\nper_record = 2\nbatch = 4\nrecords = 20\nsteps = 10\n[data]\nformat = \"npy\"\ntrain = \"a.npy\"\nmean = [0.5]\nsize = \"8x8\"\n[model]\nname = \"small-cnn\"\ntrainable = [\"fc2\"]\n[optimiser]\nbetas = [0.9, 0.99]\n[train]\nprivate = true\n[performance]\nthreads = 2\ndevice = \"cuda:0,1\"\n",
        "[privacy]\nrelation = \"replace\"\ndelta = 1e-5\nnoise_multiplier = 1.0\n[sampling]\nbatch = 3\nrecords = 9\nsteps = 4\n[partition]\nsubmodels = [[2, 0.5], [4, 0.5]]\n[[phases]]\nsteps = 2\nnoise_multiplier = 2.0\n[[phases]]\nsteps = 2\ncrop = \"4x4\"\n",
    ];
    texts.map(|text| text.as_bytes().to_vec()).to_vec()
}

/// The files that a run leaves.
#[derive(Default)]
pub(crate) struct RunFiles {
    /// What the lines of the ledger say, without their hashes.
    pub(crate) ledger: Vec<u8>,
    pub(crate) checkpoint: Vec<u8>,
    pub(crate) description: Vec<u8>,
    pub(crate) certificate: Vec<u8>,
}

/// The files of a short run that was begun, stopped and resumed.
pub(crate) fn run() -> &'static RunFiles {
    static FILES: OnceLock<RunFiles> = OnceLock::new();
    FILES.get_or_init(|| run_files().unwrap_or_default())
}

fn run_files() -> Option<RunFiles> {
    let folder = tempfile::tempdir().ok()?;
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("images.npy"), array("|u1", "6, 2, 2", &[9; 24])).ok()?;
    std::fs::write(at("labels.npy"), array("|u1", "6,", &[0, 1, 0, 1, 0, 1])).ok()?;
    let plan = "[data]\nformat = \"npy\"\ntrain = \"images.npy\"\ntrain_labels = \"labels.npy\"\nclasses = 2\n\
                [model]\nname = \"linear\"\n[optimiser]\nlearning_rate = 0.1\nema = 0.9\nmomentum = 0.9\n\
                [privacy]\ndelta = 1e-5\nnoise_multiplier = 1.0\n[sampling]\nbatch = 2\nsteps = 8\n\
                [performance]\nthreads = 1\ndevice = \"cpu\"\n";
    let spec = PlanSpec::from_toml(plan).ok()?;
    let request = Request { spec, base: folder.path().to_owned(), masks: Vec::new() };
    let out = at("run");
    start(&request, &out, &mut StopAfter(3)).ok()?;
    resume(&out, &mut Silent).ok()?;
    let read = |name: &str| std::fs::read(out.join(name)).ok();
    let bodies = |line: &str| Some(line.split_once("\"entry\":")?.1.strip_suffix('}')?.to_owned());
    let ledger = String::from_utf8(read("ledger.jsonl")?).ok()?;
    let ledger: Option<Vec<String>> = ledger.lines().map(bodies).collect();
    let newest = std::fs::read_dir(out.join("checkpoints")).ok()?.next()?.ok()?.path();
    Some(RunFiles {
        ledger: ledger?.join("\n").into_bytes(),
        checkpoint: std::fs::read(newest).ok()?,
        description: read("model.json")?,
        certificate: read("certificate.json")?,
    })
}

/// Ends a run after some steps.
struct StopAfter(u64);

impl Observer for StopAfter {
    fn notice(&mut self, event: &Event<'_>) -> ControlFlow<()> {
        match event {
            Event::Step(report) if report.step >= self.0 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}

pub(crate) fn weight_files() -> Vec<Vec<u8>> {
    model().and_then(|graph| weights::write(&graph, &Parameters::init(&graph, 1))).into_iter().collect()
}

fn photo(width: u32, height: u32) -> RgbImage {
    RgbImage::from_fn(width, height, |x, y| image::Rgb([(x * 20) as u8, (y * 30) as u8, (x * y) as u8]))
}

/// Clips as arrays.
pub(crate) fn clips() -> Vec<Vec<u8>> {
    vec![
        array("|u1", "5, 7, 9, 3", &[9; 945]),
        array("|u1", "2, 7, 9", &[1; 126]),
        array("|u1", "4, 1, 1, 1", &[1, 2, 3, 4]),
    ]
}

/// Masks of a clip of five frames of 9x7 in every kind of file that tells frames apart, and in those that do not.
pub(crate) fn clip_masks() -> Vec<Vec<u8>> {
    let texts = [
        r#"[[], [{"bbox": [1, 2, 3, 4]}], [], [{"boxes": [[1.5, 0, 3, 4]]}], []]"#,
        r#"{"frames": [[], [], [{"segmentation": {"size": [7, 9], "counts": [0, 63]}}], [], []]}"#,
        r#"{"annotations": [{"frame": 2, "bbox": [1, 2, 3, 4]}, {"frame": 4, "box": {"xmin": 2, "ymin": 1, "xmax": 3, "ymax": 9}}]}"#,
        "frame,xmin,ymin,xmax,ymax\n0,1,2,3,4\n3,2.5,1,3,3\n",
    ];
    let mut files: Vec<Vec<u8>> = texts.map(|text| text.as_bytes().to_vec()).to_vec();
    files.push(array("|b1", "5, 7, 9", &[1; 315]));
    files.extend(image_masks());
    files
}

/// Masks of a picture of 9x7 in every kind of file.
pub(crate) fn image_masks() -> Vec<Vec<u8>> {
    let texts = [
        r#"{"size": [7, 9], "counts": [10, 20, 30, 3]}"#,
        r#"{"size": [7, 9], "counts": ":d0:J"}"#,
        r#"{"boxes": [[1.5, 0, 3, 4], [2, 2, 8, 6]]}"#,
        r#"{"annotations": [{"bbox": [1, 2, 3, 4], "score": 0.5}, {"box": {"xmin": 2, "ymin": 1, "xmax": 3, "ymax": 9}}]}"#,
        r#"[{"segmentation": {"size": [7, 9], "counts": [0, 63]}}]"#,
        "label,xmin,ymin,xmax,ymax\nface,1,2,3,4\nplate,2.5,1,3,3\n",
        "x,y,width,height\n1,2,3,4\n",
    ];
    let mut files: Vec<Vec<u8>> = texts.map(|text| text.as_bytes().to_vec()).to_vec();
    files.push(array("|u1", "7, 9", &[1; 63]));
    files.push(array("<f4", "7, 9", &[0; 252]));
    files.extend(pictures(ImageFormat::Png).into_iter().take(5));
    files
}

/// Pictures of one format, of several sizes and kinds of pixels.
pub(crate) fn pictures(format: ImageFormat) -> Vec<Vec<u8>> {
    let colours = image::DynamicImage::from(photo(9, 7));
    let kinds = [
        colours.clone(),
        colours.to_luma8().into(),
        colours.to_rgba8().into(),
        colours.to_luma16().into(),
        colours.to_rgba16().into(),
        photo(1, 1).into(),
        photo(40, 3).into(),
    ];
    let written = |picture: &image::DynamicImage| {
        let mut bytes = Cursor::new(Vec::new());
        picture.write_to(&mut bytes, format).ok().map(|()| bytes.into_inner())
    };
    kinds.iter().filter_map(written).collect()
}

/// Portable maps as text and as bytes.
pub(crate) fn portable_maps() -> Vec<Vec<u8>> {
    let mut files = pictures(ImageFormat::Pnm);
    let texts = [
        "P1\n3 2\n1 0 1\n0 1 0\n",
        "P2\n# words\n2 2\n15\n1 2\n3 15\n",
        "P3\n1 2\n65535\n1 2 3\n4 5 65535\n",
    ];
    files.extend(texts.map(|text| text.as_bytes().to_vec()));
    files.push(b"P4\n9 1\n\xa1\x80".to_vec());
    files.push(
        b"P7\nWIDTH 1\nHEIGHT 1\nDEPTH 4\nMAXVAL 255\nTUPLTYPE RGB_ALPHA\nENDHDR\n\x01\x02\x03\x04".to_vec(),
    );
    files
}

/// Pictures of numbers: grey and palettes of every depth, interlaced ones among them.
pub(crate) fn label_pictures() -> Vec<Vec<u8>> {
    use png::{BitDepth, ColorType};
    let mut files = Vec::new();
    for colour in [ColorType::Grayscale, ColorType::Indexed, ColorType::Rgb] {
        for depth in [BitDepth::One, BitDepth::Two, BitDepth::Four, BitDepth::Eight, BitDepth::Sixteen] {
            let mut bytes = Vec::new();
            let mut encoder = png::Encoder::new(&mut bytes, 5, 3);
            encoder.set_color(colour);
            encoder.set_depth(depth);
            if colour == ColorType::Indexed {
                encoder.set_palette(vec![7; 3 << (depth as usize).min(8)]);
            }
            let samples = if colour == ColorType::Rgb { 3 } else { 1 };
            let row = (5 * samples * depth as usize).div_ceil(8);
            let written =
                encoder.write_header().and_then(|mut writer| writer.write_image_data(&vec![1; 3 * row]));
            if written.is_ok() {
                files.push(bytes);
            }
        }
    }
    files
}

/// An array as numpy writes it.
fn array(kind: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let mut text = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({shape}), }}");
    text.push_str(&" ".repeat(63 - (10 + text.len()) % 64));
    text.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes.extend(data);
    bytes
}

pub(crate) fn arrays() -> Vec<Vec<u8>> {
    vec![
        array("|u1", "2, 3, 2", &[7; 12]),
        array("<f4", "2, 1, 2, 1", &[7; 16]),
        array("|u1", "2,", &[0, 1]),
        array("<i8", "2,", &[0; 16]),
        array("<u2", "2,", &[1; 4]),
    ]
}

pub(crate) fn idx() -> Vec<Vec<u8>> {
    let array = |shape: &[u32], data: &[u8]| {
        let mut bytes = vec![0, 0, 8, shape.len() as u8];
        shape.iter().for_each(|side| bytes.extend(side.to_be_bytes()));
        bytes.extend(data);
        bytes
    };
    let plain = [array(&[2, 3, 2], &[7; 12]), array(&[2, 1, 2, 3], &[9; 12]), array(&[2], &[0, 1])];
    let packed = plain.iter().map(|bytes| gzipped(bytes));
    plain.iter().cloned().chain(packed).collect()
}

pub(crate) fn cifar() -> Vec<Vec<u8>> {
    let (ten, hundred) = ([1; 3073], [1; 3074]);
    vec![ten.to_vec(), hundred.to_vec(), gzipped(&ten), gzipped(&[ten, ten].concat())]
}

/// Tables of the users of a folder with the one picture `b/a.pgm`.
pub(crate) fn user_tables() -> Vec<Vec<u8>> {
    let texts = ["file,user\nb/a.pgm,ann\n", "\u{feff}note,user,record\r\n\"a \"\"b\"\",\nc\",ben,0\r\n"];
    texts
        .map(|text| text.as_bytes().to_vec())
        .into_iter()
        .chain([array("<i4", "1,", &[7, 0, 0, 0])])
        .collect()
}

/// A picture of one pixel.
pub(crate) const DOT: &[u8] = b"P5\n1 1\n255\n\0";

/// Lists of the picture [`DOT`] as `a.pgm`.
pub(crate) fn shard_lists() -> Vec<Vec<u8>> {
    let digest = hexadecimal(&Sha256::digest(DOT));
    vec![
        format!("file,class,width,height,sha256,shard\na.pgm,1,1,1,{digest},north\n").into_bytes(),
        format!("shard,sha256,note,\"file\",width,height,class\r\n0,{digest},,\"a.pgm\",1,1,cat\r\n")
            .into_bytes(),
    ]
}

/// A grey picture of one pixel, which may be a label picture, too.
pub(crate) fn grey_dot() -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    // Writing to memory cannot fail.
    let _ = image::GrayImage::new(1, 1).write_to(&mut bytes, ImageFormat::Png);
    bytes.into_inner()
}

/// Lists of [`grey_dot`] as `a.png` with itself as its label map.
pub(crate) fn pair_shard_lists() -> Vec<Vec<u8>> {
    let digest = hexadecimal(&Sha256::digest(grey_dot()));
    let header = "file,labels,width,height,sha256,labels_sha256,shard";
    vec![format!("{header}\na.png,a.png,1,1,{digest},{digest},north\n").into_bytes()]
}

/// An array of two pictures of 3x2 pixels, or a clip of two frames.
pub(crate) fn image_array() -> Vec<u8> {
    array("|u1", "2, 2, 3", &[5, 6, 7, 8, 9, 10, 1, 2, 3, 4, 5, 6])
}

/// Lists of the records of [`image_array`] as `a.npy`.
pub(crate) fn array_shard_lists() -> Vec<Vec<u8>> {
    let header = "file,record,class,width,height,channels,type,sha256,shard";
    let digest = |class: u32, values: &[u8]| {
        let hash = Sha256::new_with_prefix("content").chain_update(class.to_le_bytes());
        hexadecimal(&hash.chain_update(values).finalize())
    };
    let (one, two) = (digest(0, &[5, 6, 7, 8, 9, 10]), digest(1, &[1, 2, 3, 4, 5, 6]));
    vec![format!("{header}\na.npy,0,0,3,2,1,uint8,{one},0\na.npy,1,1,3,2,1,uint8,{two},0\n").into_bytes()]
}

/// Lists of [`image_array`] as the clip `a.npy`.
pub(crate) fn clip_shard_lists() -> Vec<Vec<u8>> {
    let bytes = image_array();
    let digest =
        Sha256::new().chain_update((bytes.len() as u64).to_le_bytes()).chain_update(&bytes).finalize();
    vec![format!("file,class,sha256,shard\na.npy,run,{},0\n", hexadecimal(&digest)).into_bytes()]
}

pub(crate) fn lists() -> Vec<Vec<u8>> {
    vec![b"# picture class\na 1\n".to_vec(), b"/a.pgm cat 3 4\n\n".to_vec()]
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    // Writing to memory cannot fail.
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default()
}
