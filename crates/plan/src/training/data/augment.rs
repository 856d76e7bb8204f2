//! Augmentations as they are written in a plan: a name and its arguments, separated by spaces.

use std::str::FromStr;

use dapple_geometry::{AffineRanges, Augmentation, AugmentationKind, ColourJitter, Size};

use super::SettingError;
use crate::check::one_line;
use crate::spec::Pixels;

const KEY: &str = "data.augment";
/// The largest radius of a blur, because its cost grows with the radius.
const MAX_RADIUS: u32 = 1024;
/// The steepest shear and the largest factor of a size or a colour. More is a slip of the pen.
const MAX_SHEAR: f64 = 80.0;
const MAX_FACTOR: f64 = 100.0;
/// The strengths of RandAugment, and the most of its changes.
const MAX_MAGNITUDE: u32 = 30;
const MAX_CHANGES: u32 = 100;

/// The augmentations, each with what may follow its name. All but the numbers alone may be left out.
const KNOWN: [(&str, &str); 14] = [
    ("colour-jitter", "brightness=V contrast=V saturation=V hue=V"),
    ("greyscale", ""),
    ("invert", ""),
    ("posterize", "BITS"),
    ("solarize", "THRESHOLD"),
    ("autocontrast", ""),
    ("equalize", ""),
    ("affine", "degrees=V translate=SHARE[xSHARE] scale=LOW:HIGH shear=V shear-y=V"),
    ("cutout", "WxH"),
    ("noise", "DEVIATION"),
    ("blur", "RADIUS DEVIATION"),
    ("sharpness", "FACTOR"),
    ("sobel", ""),
    ("rand-augment", "CHANGES MAGNITUDE"),
];

/// Whether this is the name of an augmentation.
pub(crate) fn is_name(text: &str) -> bool {
    KNOWN.iter().any(|(name, _)| *name == text)
}

/// Reads one augmentation. `p=P` behind any of them says how likely it is carried out.
pub(super) fn parse(text: &str) -> Result<Augmentation, SettingError> {
    let mut words = text.split_whitespace();
    let name = words.next().unwrap_or_default();
    let Some((name, usage)) = KNOWN.iter().find(|(known, _)| *known == name) else {
        let names: Vec<&str> = KNOWN.iter().map(|(name, _)| *name).collect();
        let problem =
            format!("no augmentation is called `{}`; there are {}", one_line(name), names.join(", "));
        return Err(SettingError::refused(KEY, problem));
    };
    let mut arguments = AugmentationWords { text, usage, plain: Vec::new(), named: Vec::new() };
    for word in words {
        match word.split_once('=') {
            Some((name, value)) if arguments.named.iter().all(|(other, _)| *other != name) => {
                arguments.named.push((name, value));
            }
            Some(_) => return Err(arguments.unreadable()),
            None => arguments.plain.push(word),
        }
    }
    arguments.plain.reverse();
    let probability = arguments.named("p", 1.0, |p: &f64| (0.0..=1.0).contains(p))?;
    let kind = kind(name, &mut arguments)?;
    if !arguments.plain.is_empty() || !arguments.named.is_empty() {
        return Err(arguments.unreadable());
    }
    Ok(Augmentation { kind, probability })
}

fn kind(name: &str, arguments: &mut AugmentationWords<'_>) -> Result<AugmentationKind, SettingError> {
    let factor = |ends: &Ends| ends.0.0 >= 0.0 && ends.0.1 <= MAX_FACTOR;
    let positive = |ends: &Ends| ends.0.0 > 0.0 && ends.0.1 <= MAX_FACTOR;
    Ok(match name {
        "colour-jitter" => AugmentationKind::ColourJitter(ColourJitter {
            brightness: arguments.about("brightness", 1.0, factor)?,
            contrast: arguments.about("contrast", 1.0, factor)?,
            saturation: arguments.about("saturation", 1.0, factor)?,
            hue: arguments.about("hue", 0.0, |Ends((low, high))| *low >= -0.5 && *high <= 0.5)?,
        }),
        "greyscale" => AugmentationKind::Greyscale,
        "invert" => AugmentationKind::Invert,
        "posterize" => AugmentationKind::Posterize { bits: arguments.plain(|bits| (1..=8).contains(bits))? },
        "solarize" => AugmentationKind::Solarize {
            threshold: arguments.plain(|threshold| (0.0..=1.0).contains(threshold))?,
        },
        "autocontrast" => AugmentationKind::AutoContrast,
        "equalize" => AugmentationKind::Equalize,
        "affine" => {
            let shear = |Ends((low, high)): &Ends| *low >= -MAX_SHEAR && *high <= MAX_SHEAR;
            let shares = |SideShares((x, y)): &SideShares| (0.0..=1.0).contains(x) && (0.0..=1.0).contains(y);
            AugmentationKind::Affine(AffineRanges {
                degrees: arguments
                    .about("degrees", 0.0, |Ends((low, high))| *low >= -180.0 && *high <= 180.0)?,
                translate: arguments.named("translate", SideShares((0.0, 0.0)), shares)?.0,
                scale: arguments
                    .named("scale", Ends((1.0, 1.0)), |ends: &Ends| {
                        ends.0.0 >= 1.0 / MAX_FACTOR && ends.0.1 <= MAX_FACTOR
                    })?
                    .0,
                shear_x: arguments.about("shear", 0.0, shear)?,
                shear_y: arguments.about("shear-y", 0.0, shear)?,
            })
        }
        "cutout" => {
            let Pixels { x, y } = arguments.plain(|Pixels { x, y }| *x > 0 && *y > 0)?;
            AugmentationKind::Cutout(Size::new(x, y).map_err(|_| arguments.unreadable())?)
        }
        "noise" => AugmentationKind::Noise { deviation: arguments.plain(factor)?.0 },
        "blur" => AugmentationKind::Blur {
            radius: arguments.plain(|radius| (1..=MAX_RADIUS).contains(radius))?,
            deviation: arguments.plain(positive)?.0,
        },
        "sharpness" => AugmentationKind::Sharpness { factor: arguments.plain(factor)?.0 },
        "sobel" => AugmentationKind::Sobel,
        _ => AugmentationKind::RandAugment {
            changes: arguments.plain(|changes| (1..=MAX_CHANGES).contains(changes))?,
            magnitude: arguments.plain(|magnitude| *magnitude <= MAX_MAGNITUDE)?,
        },
    })
}

/// What follows the name of an augmentation and is not yet read. Values without a name are kept from last to first.
struct AugmentationWords<'a> {
    text: &'a str,
    usage: &'a str,
    plain: Vec<&'a str>,
    named: Vec<(&'a str, &'a str)>,
}

impl AugmentationWords<'_> {
    fn unreadable(&self) -> SettingError {
        let usage = if self.usage.is_empty() { "no arguments" } else { self.usage };
        let problem = format!("cannot read `{}`; it takes {usage}, and p=PROBABILITY", one_line(self.text));
        SettingError::refused(KEY, problem)
    }

    /// The next value without a name.
    fn plain<T: FromStr>(&mut self, allowed: impl Fn(&T) -> bool) -> Result<T, SettingError> {
        let value = self.plain.pop().and_then(|word| word.parse().ok()).filter(allowed);
        value.ok_or_else(|| self.unreadable())
    }

    /// The value of this name, or what it is where none is given.
    fn named<T: FromStr>(
        &mut self,
        name: &str,
        default: T,
        allowed: impl Fn(&T) -> bool,
    ) -> Result<T, SettingError> {
        let Some(place) = self.named.iter().position(|(given, _)| *given == name) else { return Ok(default) };
        let (_, word) = self.named.swap_remove(place);
        word.parse().ok().filter(allowed).ok_or_else(|| self.unreadable())
    }

    /// A range as `LOW:HIGH`, or as one number `V` for `middle - V` to `middle + V`, not below 0 around 1.
    fn about(
        &mut self,
        name: &str,
        middle: f64,
        allowed: impl Fn(&Ends) -> bool,
    ) -> Result<(f64, f64), SettingError> {
        let Some(place) = self.named.iter().position(|(given, _)| *given == name) else {
            return Ok((middle, middle));
        };
        let (_, word) = self.named[place];
        if let Ok(spread) = word.parse::<f64>() {
            self.named.swap_remove(place);
            let lowest = if middle > 0.0 { 0.0 } else { f64::NEG_INFINITY };
            let ends = Ends(((middle - spread).max(lowest), middle + spread));
            let sound = spread >= 0.0 && spread.is_finite() && allowed(&ends);
            return if sound { Ok(ends.0) } else { Err(self.unreadable()) };
        }
        self.named(name, Ends((middle, middle)), allowed).map(|Ends(ends)| ends)
    }
}

/// The ends of a range, `LOW:HIGH` or one number for both.
struct Ends((f64, f64));

impl FromStr for Ends {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite()).ok_or(());
        let (low, high) = match text.split_once(':') {
            Some((low, high)) => (number(low)?, number(high)?),
            None => (number(text)?, number(text)?),
        };
        if low <= high { Ok(Self((low, high))) } else { Err(()) }
    }
}

/// SideShares of a view's sides, `X` for both or `XxY`.
struct SideShares((f64, f64));

impl FromStr for SideShares {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (x, y) = text.split_once('x').unwrap_or((text, text));
        Ok(Self((x.parse().map_err(|_| ())?, y.parse().map_err(|_| ())?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn augmentations_are_read() {
        let same = (1.0, 1.0);
        let jitter =
            ColourJitter { brightness: (0.5, 1.5), contrast: same, saturation: (0.0, 3.0), hue: (0.0, 0.25) };
        let warp = AffineRanges {
            degrees: (-10.0, 10.0),
            translate: (0.25, 0.5),
            scale: (0.5, 2.0),
            shear_x: (-5.0, 5.0),
            shear_y: (0.0, 0.0),
        };
        for (text, kind) in [
            ("colour-jitter brightness=0.5 saturation=2 hue=0:0.25", AugmentationKind::ColourJitter(jitter)),
            ("affine shear=5 degrees=10 translate=0.25x0.5 scale=0.5:2", AugmentationKind::Affine(warp)),
            ("cutout 8x4", AugmentationKind::Cutout(Size::new(8, 4).unwrap())),
            ("noise 0.1", AugmentationKind::Noise { deviation: (0.1, 0.1) }),
            ("blur 2 0.5:2", AugmentationKind::Blur { radius: 2, deviation: (0.5, 2.0) }),
            ("sharpness 1.5", AugmentationKind::Sharpness { factor: (1.5, 1.5) }),
            ("posterize 4", AugmentationKind::Posterize { bits: 4 }),
            ("solarize 0.5", AugmentationKind::Solarize { threshold: 0.5 }),
            ("rand-augment 2 9", AugmentationKind::RandAugment { changes: 2, magnitude: 9 }),
            ("sobel", AugmentationKind::Sobel),
            ("greyscale", AugmentationKind::Greyscale),
            ("invert", AugmentationKind::Invert),
            ("autocontrast", AugmentationKind::AutoContrast),
            ("equalize", AugmentationKind::Equalize),
        ] {
            assert_eq!(parse(text).unwrap(), Augmentation { kind, probability: 1.0 }, "{text}");
            let seldom = parse(&format!("{text} p=0.25")).unwrap();
            assert_eq!(seldom, Augmentation { kind, probability: 0.25 }, "{text}");
            assert!(text.starts_with(seldom.name()) && is_name(seldom.name()));
        }
    }

    #[test]
    fn nonsense_is_refused_with_what_would_do() {
        for text in [
            "",
            "sparkle",
            "a\nb",
            "noise",
            "noise -1",
            "noise 0.1 0.2",
            "noise nan",
            "noise 0.2:0.1",
            "noise 0.1 p=2",
            "noise 0.1 p=0.1 p=0.2",
            "sobel 3",
            "sobel strength=3",
            "blur 0 1",
            "blur 2000 1",
            "blur 2 0",
            "cutout 0x4",
            "posterize 9",
            "solarize 2",
            "rand-augment 2",
            "rand-augment 2 31",
            "colour-jitter hue=0.6",
            "colour-jitter brightness=-1",
            "affine scale=0:1",
            "affine shear=90",
            "affine translate=2",
        ] {
            let problem = parse(text).unwrap_err().to_string();
            assert!(problem.starts_with("`data.augment`: ") && !problem.contains('\n'), "{text}: {problem}");
        }
        assert!(parse("noise x").unwrap_err().to_string().contains("it takes DEVIATION"));
        assert!(parse("jpeg").unwrap_err().to_string().contains("colour-jitter, greyscale"));
    }
}
