//! `[data]`: where the records come from.

use super::Pixels;
use super::declare::{section, words};

section! {
    /// `[data]`: where the records come from.
    pub struct DataSpec = "data" {
        format: DataFormat =
            ("how the records are stored", "image-folder");
        train: String =
            ("the folder or file of the records to train on", "photos/train")
                .file();
        train_labels: String =
            ("the file of their labels, or the folder of their label maps, or of the lists of a published split", "train-labels.npy")
                .file();
        test: String =
            ("the folder or file of the records to evaluate on", "photos/test")
                .file();
        test_labels: String =
            ("the file of their labels, or the folder of their label maps", "test-labels.npy")
                .file();
        masks: String =
            ("the folder of masks that say which pixels of each image or clip are private, for the masked relation", "photos/masks")
                .file();
        users: String =
            ("the file that says whose records are whose, for the user relation", "users.csv")
                .file();
        classes: u32 =
            ("the number of classes the data set must have", "10");
        class_ids: Vec<u32> =
            ("the number of each class in label maps, for image-pairs and pair-shards", "[0, 1, 2]")
                .or("0, 1, 2, ...");
        ignore: Vec<u32> =
            ("the numbers in label maps that count for nothing, for image-pairs and pair-shards", "[255]")
                .or("255");
        class_names: Vec<String> =
            ("the names of the classes, for image-pairs and pair-shards", "[\"road\", \"sky\"]");
        class_colours: Vec<String> =
            ("the colours in which classes are shown, for image-pairs and pair-shards", "[\"#804080\", \"#4682b4\"]");
        frames: u32 =
            ("the number of frames of a clip that the model sees, evenly spaced over it", "16")
                .or("16");
        split: SplitChoice =
            ("which published split of a data set of clips is used", "cross-subject")
                .or("first for ucf-101 and hmdb-51, cross-subject for ntu-rgb-d and toyota-smarthome");
        private: PrivateThing =
            ("what the masks of moving-shapes mark as private", "object")
                .or("object");
        train_sessions: Vec<String> =
            ("the sessions of A2D2 to train on", "[\"20180807_145028\"]")
                .or("11 of them");
        test_sessions: Vec<String> =
            ("the sessions of A2D2 to evaluate on", "[\"20180925_101535\"]")
                .or("3 others");
        validation: f64 =
            ("the share of the records split off where no test set is given", "0.1");
        /// Where classes are protected, the split would tell of them.
        stratified: bool =
            ("whether that share is taken of each class, where classes are public", "true")
                .or("false");
        split_seed: u64 =
            ("the seed of that split", "0")
                .or("0");
        max_pixels: u64 =
            ("the most pixels an image may have, or the frames of a clip together", "67108864")
                .or("67108864 (8192x8192)");
        max_bytes: u64 =
            ("the most bytes a file may take in memory, unpacked", "2147483648")
                .or("2147483648 (2 GiB)");
        check: bool =
            ("whether every record is read once before a run begins", "false")
                .or("true");
        /// These are constants that must never be computed from private records.
        mean: Vec<f64> =
            ("what is subtracted from each channel, of values from 0 to 1", "[0.5]")
                .or("0");
        std: Vec<f64> =
            ("what each channel is divided by, of values from 0 to 1", "[0.25]")
                .or("1");
        flip: bool =
            ("whether views are mirrored at random, after the crop", "true")
                .or("false");
        augment: Vec<String> =
            ("a list of further random changes of views, after mirroring", "[\"colour-jitter brightness=0.4\"]")
                .or("none");
        size: Pixels =
            ("the size to which views are brought for the model", "[32, 32]")
                .or("the size of the crop, or of the image");
    }
}

words! {
    /// How records are stored.
    pub enum DataFormat {
        /// One folder of pictures for each class.
        ImageFolder = "image-folder",
        /// Pictures named by a list.
        ImageList = "image-list",
        /// Pictures in shards, named by a list that also tells their sizes and what they hold.
        ImageShards = "image-shards",
        /// Images and label maps in shards.
        PairShards = "pair-shards",
        /// Arrays of images in shards.
        ArrayShards = "array-shards",
        /// Clips in shards.
        ClipShards = "clip-shards",
        /// The files of the MNIST family.
        Idx = "idx",
        /// The binary files of CIFAR-10 and CIFAR-100.
        Cifar = "cifar",
        /// Numpy arrays.
        Npy = "npy",
        /// The embedded data of the demonstration.
        FashionScenes = "fashion-scenes",
        /// A folder of images and one of label maps.
        ImagePairs = "image-pairs",
        /// Cityscapes, with its 19 classes.
        Cityscapes = "cityscapes",
        /// A2D2, with its colours grouped into 18 classes.
        A2d2 = "a2d2",
        /// Streets drawn by the program, with label maps.
        StreetScenes = "street-scenes",
        /// One folder of clips for each class.
        ClipFolder = "clip-folder",
        /// UCF-101, split by its lists.
        Ucf101 = "ucf-101",
        /// HMDB-51, split by its lists.
        Hmdb51 = "hmdb-51",
        /// NTU RGB+D and NTU RGB+D 120, split by the names of their files.
        NtuRgbD = "ntu-rgb-d",
        /// Toyota Smarthome, split by the names of its files.
        ToyotaSmarthome = "toyota-smarthome",
        /// Clips of moving shapes drawn by the program, with masks.
        MovingShapes = "moving-shapes",
    }
}

words! {
    /// A published split of a data set of clips.
    pub enum SplitChoice {
        /// The first of three.
        First = "first",
        /// The second of three.
        Second = "second",
        /// The third of three.
        Third = "third",
        /// Some people to train on, others to test on.
        CrossSubject = "cross-subject",
        /// Some cameras to train on, others to test on.
        CrossView = "cross-view",
        /// One camera to train on, another to test on.
        CrossView1 = "cross-view-1",
        /// Several cameras to train on, another to test on.
        CrossView2 = "cross-view-2",
        /// Some arrangements of cameras to train on, others to test on.
        CrossSetup = "cross-setup",
    }
}

words! {
    /// What the masks of drawn clips mark as private.
    #[derive(Default)]
    pub enum PrivateThing {
        /// The shape that moves.
        #[default]
        Object = "object",
        /// All that is behind it.
        Background = "background",
    }
}

impl DataFormat {
    /// Whether records of this format are part of the program, some of them to evaluate on.
    #[must_use]
    pub fn is_embedded(self) -> bool {
        matches!(self, Self::FashionScenes | Self::StreetScenes | Self::MovingShapes)
    }

    /// Whether records of this format are clips.
    #[must_use]
    pub fn is_of_clips(self) -> bool {
        match self {
            Self::ClipFolder
            | Self::ClipShards
            | Self::Ucf101
            | Self::Hmdb51
            | Self::NtuRgbD
            | Self::ToyotaSmarthome
            | Self::MovingShapes => true,
            Self::ImageFolder
            | Self::ImageList
            | Self::ImageShards
            | Self::PairShards
            | Self::ArrayShards
            | Self::Idx
            | Self::Cifar
            | Self::Npy
            | Self::FashionScenes
            | Self::ImagePairs
            | Self::Cityscapes
            | Self::A2d2
            | Self::StreetScenes => false,
        }
    }
}
