//! What is protected within an image, and how an image gets to the model.

use super::declare::{section, words};
use super::{Interval, Pixels, SizeRange};

section! {
    /// The `[region]` section.
    pub struct RegionSpec = "region" {
        patch: Pixels =
            ("the private rectangle in whole pixels, WIDTHxHEIGHT", "10x10")
                .flag("patch", "WxH")
                .instead_of(&["region.circle", "region.mask"]);
        circle: f64 =
            ("the radius of the private disc in pixels", "12")
                .flag("circle", "RADIUS")
                .instead_of(&["region.patch", "region.mask"]);
        mask: String =
            ("the name of a picture in which white is private", "mask.png")
                .flag("region-mask", "FILE.png")
                .file()
                .instead_of(&["region.patch", "region.circle"]);
        travel: Pixels =
            ("how many columns and rows the region moves within a clip at most, PX or XxY", "40x20")
                .flag("travel", "XxY")
                .or("0, a region that stays");
        duration: u32 =
            ("how many frames of a clip, one after the other, show the region at most, of those that reach the pipeline", "8")
                .flag("duration", "FRAMES")
                .or("all of them");
        placement: PlacementSpec =
            ("where the region may lie", "anywhere")
                .flag("placement", "WHERE")
                .or("anywhere");
    }
}

words! {
    /// Where the region may lie.
    pub enum PlacementSpec {
        /// Anywhere, so the worst of all places counts.
        Anywhere = "anywhere",
        /// Where the mask marks it.
        Annotated = "annotated",
    }
}

section! {
    /// The `[pipeline]` section.
    pub struct PipelineSpec = "pipeline" {
        image: Pixels =
            ("the size of an image in whole pixels, WIDTHxHEIGHT", "1000x1000")
                .flag("image", "WxH")
                .instead_of(&["pipeline.sizes"]);
        sizes: SizeRange =
            ("the smallest and the largest size of an image, where images have several", "480x360:1920x1080")
                .flag("sizes", "WxH:WxH")
                .or("all images have one size")
                .instead_of(&["pipeline.image"]);
        operations: Vec<String> =
            ("a list of operations before padding and crop", "[\"resize 512x256 bilinear\"]");
        pad: Pixels =
            ("the pixels added on each side, PX or PXxPY", "4")
                .flag("pad", "PX[xPY]")
                .or("0");
        pad_mode: PadModeSpec =
            ("what the padding shows", "zero")
                .flag("pad-mode", "MODE")
                .or("zero");
        crop: Pixels =
            ("the size of a crop in whole pixels, WIDTHxHEIGHT", "100x100")
                .flag("crop", "WxH")
                .or("no crop")
                .instead_of(&["pipeline.crop_scale", "pipeline.crop_ratio"]);
        crop_scale: Interval =
            ("the share of the area a random resized crop takes", "0.08:1")
                .flag("crop-scale", "A:B")
                .or("0.08:1 if --crop-ratio is given")
                .instead_of(&["pipeline.crop"]);
        crop_ratio: Interval =
            ("the width of a random resized crop over its height", "0.75:1.3333")
                .flag("crop-ratio", "A:B")
                .or("3/4 to 4/3 if --crop-scale is given")
                .instead_of(&["pipeline.crop"]);
        frames: u32 =
            ("how many frames of a clip reach the pipeline, where views show a window of them", "32")
                .flag("frames", "N")
                .or("those of the data");
        window: u32 =
            ("how many frames of a clip a view shows, one after the other, from a random one on", "8")
                .flag("window", "W")
                .or("all of them");
        pixel_noise: f64 =
            ("the standard deviation of Gaussian noise on the values of each view, of values from 0 to 1", "10.0")
                .or("none");
        views: u32 =
            ("the number of views of a record averaged before clipping", "1")
                .flag("views", "K")
                .or("1");
    }
}

words! {
    /// What the padding shows.
    pub enum PadModeSpec {
        /// A constant.
        Zero = "zero",
        /// The image mirrored about its edge pixel.
        Reflect = "reflect",
        /// The edge pixel repeated.
        Replicate = "replicate",
        /// The opposite side.
        Wrap = "wrap",
    }
}

section! {
    /// The `[mix]` section: `K_self` and `K_diff` of DP-Mix. `K_base` is `pipeline.views`.
    pub struct MixSpec = "mix" {
        self_mix: u32 =
            ("the number of mixtures of two of a record's own views and synthetic images", "18")
                .flag("self-mix", "K")
                .or("0");
        synthetic: u32 =
            ("the number of synthetic images beside each record, from a model not trained on the data set", "2")
                .flag("synthetic", "K")
                .or("0");
        /// Naming it is the claim that the certificate states and no program can check.
        pool: String =
            ("the folder of synthetic images, none of which was made from the private data", "synthetic")
                .file();
        pool_class: String =
            ("the class of all synthetic images, if the pool has no folder for each class", "cat")
                .or("the name of each image's folder");
        allow: Allowance =
            ("what would be refused otherwise", "pure-synthetic")
                .flag("allow", "WHAT")
                .or("nothing");
    }
}

words! {
    /// What a plan may ask for only in as many words.
    pub enum Allowance {
        /// Records of which no view is shown, so that epsilon buys nothing.
        PureSynthetic = "pure-synthetic",
    }
}
