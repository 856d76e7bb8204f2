//! Operations on the whole image, as they are written in a plan.

use dapple_geometry::{Filter, GlobalOperation, Operation, Padding, PaddingMode, Size};

use crate::error::PlanError;
use crate::spec::Pixels;
use crate::training::augment;

const KEY: &str = "pipeline.operations";
const KNOWN: &str = "pad PX[xPY] [zero|reflect|replicate|wrap], resize WxH [nearest|nearest-exact|box|bilinear|bicubic|lanczos] [no-antialias], blur RADIUS, flip-horizontal, flip-vertical, turn-clockwise, turn-counterclockwise, pointwise, jpeg [4:4:4]";

/// Reads one operation: a name and its arguments, separated by spaces.
pub(crate) fn parse(text: &str) -> Result<Operation, PlanError> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let unreadable = || {
        let hint = match words.first() {
            Some(name) if augment::is_name(name) => {
                "augmentations come behind the crop, in data.augment".into()
            }
            _ => format!("operations are {KNOWN}"),
        };
        PlanError::invalid(KEY, format!("cannot read the operation `{}`", one_line(text)), hint)
    };
    let geometry = |source| PlanError::Geometry { key: KEY, source };
    let pixels = |word: &str| word.parse::<Pixels>().map_err(|()| unreadable());
    Ok(match words.as_slice() {
        ["pad", amount, mode @ ..] => {
            let Pixels { x, y } = pixels(amount)?;
            let mode = match mode {
                [] => PaddingMode::Zero,
                [mode] => mode.parse().map_err(geometry)?,
                _ => return Err(unreadable()),
            };
            Operation::Pad { padding: Padding { x, y }, mode }
        }
        ["resize", size, options @ ..] => {
            let Pixels { x, y } = pixels(size)?;
            let to = Size::named("resized image", x, y).map_err(geometry)?;
            let mut operation = (Filter::Bilinear, true);
            for option in options {
                match *option {
                    "antialias" => operation.1 = true,
                    "no-antialias" => operation.1 = false,
                    filter => operation.0 = filter.parse().map_err(geometry)?,
                }
            }
            Operation::Resize { to, filter: operation.0, antialias: operation.1 }
        }
        ["blur", radius] => {
            let Pixels { x, y } = pixels(radius)?;
            Operation::Blur { radius_x: x, radius_y: y }
        }
        ["flip-horizontal"] => Operation::FlipHorizontal,
        ["flip-vertical"] => Operation::FlipVertical,
        ["turn-clockwise"] => Operation::Turn { clockwise: true },
        ["turn-counterclockwise"] => Operation::Turn { clockwise: false },
        ["pointwise"] => Operation::Pointwise,
        ["jpeg"] => Operation::Jpeg { chroma_subsampling: true },
        ["jpeg", "4:4:4"] => Operation::Jpeg { chroma_subsampling: false },
        [name] => Operation::Global(name.parse::<GlobalOperation>().map_err(|_| unreadable())?),
        _ => return Err(unreadable()),
    })
}

/// The operation as [`parse`] reads it.
pub(crate) fn write(operation: &Operation) -> String {
    match operation {
        Operation::Pad { padding, mode } => format!("pad {}x{} {mode}", padding.x, padding.y),
        Operation::Resize { to, filter, antialias } => {
            let filter = match filter {
                Filter::Nearest => "nearest",
                Filter::NearestExact => "nearest-exact",
                Filter::Box => "box",
                Filter::Bilinear => "bilinear",
                Filter::Bicubic => "bicubic",
                Filter::Lanczos => "lanczos",
            };
            format!("resize {to} {filter} {}", if *antialias { "antialias" } else { "no-antialias" })
        }
        Operation::Blur { radius_x, radius_y } => format!("blur {radius_x}x{radius_y}"),
        Operation::FlipHorizontal => "flip-horizontal".to_owned(),
        Operation::FlipVertical => "flip-vertical".to_owned(),
        Operation::Turn { clockwise: true } => "turn-clockwise".to_owned(),
        Operation::Turn { clockwise: false } => "turn-counterclockwise".to_owned(),
        Operation::Pointwise => "pointwise".to_owned(),
        Operation::Jpeg { chroma_subsampling: true } => "jpeg".to_owned(),
        Operation::Jpeg { chroma_subsampling: false } => "jpeg 4:4:4".to_owned(),
        Operation::Global(global) => global.name().to_owned(),
    }
}

/// Text from outside, shortened and without line breaks, so that an error stays on one line.
pub(crate) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_read() {
        let size = Size::new(512, 256).unwrap();
        for (text, operation) in [
            ("pad 4", Operation::Pad { padding: Padding { x: 4, y: 4 }, mode: PaddingMode::Zero }),
            ("pad 4x2 wrap", Operation::Pad { padding: Padding { x: 4, y: 2 }, mode: PaddingMode::Wrap }),
            ("resize 512x256", Operation::Resize { to: size, filter: Filter::Bilinear, antialias: true }),
            (
                "resize 512x256 lanczos no-antialias",
                Operation::Resize { to: size, filter: Filter::Lanczos, antialias: false },
            ),
            ("blur 3", Operation::Blur { radius_x: 3, radius_y: 3 }),
            ("jpeg 4:4:4", Operation::Jpeg { chroma_subsampling: false }),
            ("equalize", Operation::Global(GlobalOperation::Equalize)),
        ] {
            assert_eq!(parse(text).unwrap(), operation, "{text}");
            assert_eq!(parse(&write(&operation)).unwrap(), operation, "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused_with_what_would_do() {
        for text in
            ["", "pad", "pad x", "pad 1 2 3", "resize 0x4", "blur -1", "sparkle", "jpeg 4:2:2 x", "a\nb"]
        {
            let error = parse(text).unwrap_err();
            assert!(error.hint().is_some(), "{text}");
            assert!(!error.to_string().contains('\n'));
        }
        assert!(parse("noise 0.1").unwrap_err().hint().unwrap().contains("data.augment"));
    }
}
