//! Views of the private part of an image alone, or of its public part alone.

use chacha20::rand_core::Rng;
use dapple_geometry::{Filter, GeometryError, Mask, Operation, PixelReach, TokenGrid, influence};

use super::{ShownView, Views};
use crate::{DataError, Dataset, IGNORED};

/// A part of every image, by its mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordPart {
    /// The pixels in the mask.
    Private,
    /// The pixels outside it.
    Public,
}

/// What of a model is told where the part lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartGrid {
    /// Tokens, of which each belongs to one part: to the private one if a pixel in its window may depend on a private pixel, and to the
    /// public one otherwise.
    Tokens(TokenGrid),
    /// Cells of what the model pools over at last. A cell belongs to every part of which a pixel may lie over it.
    Cells(TokenGrid),
}

impl PartGrid {
    fn grid(self) -> TokenGrid {
        match self {
            Self::Tokens(grid) | Self::Cells(grid) => grid,
        }
    }
}

/// Which part views show, and where it lies in the model.
#[derive(Debug, Clone, Copy)]
pub(super) struct ShownPart {
    part: RecordPart,
    /// What of the model is told that.
    grid: Option<PartGrid>,
}

impl Views {
    /// The same views of a part of every image. Where the model is told the places of a part in a grid, each view is followed by their
    /// shares: a one, for a class token, and for each place of the grid one over the number of those that belong to the part, or zero.
    ///
    /// # Guarantee
    /// The pixels of the other part are blanked before anything else is done with the image, so that no bit of these views depends on them:
    /// neither through padding, resizing and windows that overlap nor through augmentations.
    ///
    /// # Errors
    /// Mixtures and synthetic images; with tokens, an augmentation by which every pixel of a view reaches every other, and views that are
    /// smaller than a window.
    pub fn of_part(mut self, part: RecordPart, grid: Option<PartGrid>) -> Result<Self, DataError> {
        if self.synthetic_count() > 0 || self.mixtures > 0 {
            let problem = "private and public parts of an image are neither mixed nor accompanied";
            return Err(DataError::setting("mix", problem));
        }
        if let Some(grid) = grid {
            grid.grid().count(self.output, self.shown_frames()).map_err(DataError::geometry("views"))?;
        }
        if let Some(PartGrid::Tokens(_)) = grid {
            let whole = |augmentation: &&dapple_geometry::Augmentation| {
                augmentation.reach(self.output) == PixelReach::View
            };
            if let Some(augmentation) = self.augment.iter().find(whole) {
                let problem = format!(
                    "by `{}` every pixel of a view reaches every token, so that none would be public",
                    augmentation.name()
                );
                return Err(DataError::setting("data.augment", problem));
            }
        }
        self.part = Some(ShownPart { part, grid });
        Ok(self)
    }

    /// Values that the model takes of one view: those of [`Views::view_length`], and the shares of tokens behind them.
    #[must_use]
    pub fn input_length(&self) -> usize {
        self.view_length() + self.shares()
    }

    /// Shares behind each view.
    fn shares(&self) -> usize {
        let grid = self.part.and_then(|shown| shown.grid);
        let count = grid.and_then(|grid| grid.grid().count(self.output, self.shown_frames()).ok());
        count.map_or(0, |count| count as usize + 1)
    }

    /// The number of frames that a view of a clip has.
    fn shown_frames(&self) -> Option<u32> {
        self.normalise.frames().map(|frames| frames as u32)
    }

    /// Whether views show a part of each image.
    pub(crate) fn show_part(&self) -> bool {
        self.part.is_some()
    }

    /// Draws the views of a part of a record, each with its class, or with [`IGNORED`] if nothing of the part is in the view.
    ///
    /// # Shapes
    /// `output` is `[views, input_length]`.
    ///
    /// # Guarantee
    /// That of [`Views::of_part`]. Which pixels are private is known to both parts, and so is the class. Each frame of a clip is blanked by
    /// its own mask.
    pub(super) fn draw_part(
        &self,
        shown: ShownPart,
        (dataset, record): (&dyn Dataset, usize),
        random: &mut impl Rng,
        output: &mut [f32],
        classes: &mut Vec<u32>,
    ) -> Result<(), DataError> {
        let class = dataset.label(record)?;
        let image = dataset.read(record)?;
        let at = |error: DataError| error.at(|| dataset.place(record));
        self.check_image(&image).map_err(at)?;
        let masks = dataset.frame_masks(record, image.size())?.ok_or_else(|| {
            DataError::missing("data.masks", "the folder of masks that say which pixels are private")
        })?;
        let other: Vec<Mask> = match shown.part {
            RecordPart::Private => masks.iter().map(Mask::complement).collect(),
            RecordPart::Public => masks.clone(),
        };
        let image = image.blanked(&other, |channel| self.normalise.mean(channel)).ok_or_else(|| {
            DataError::setting(
                "data.masks",
                format!("the mask of {} is of another size, or of other frames", dataset.place(record)),
            )
        })?;
        let mut views = vec![0.0; self.views * self.view_length()];
        let places = self.show(&image, |reaching| self.places(reaching, random), &mut views).map_err(at)?;
        self.change(random, &mut views, |_, _| {});
        let geometry = || DataError::geometry(dataset.place(record));
        let reach = |mask: &Mask| influence(&self.before, mask);
        let reaching: Vec<Mask> = masks.iter().map(reach).collect::<Result<_, _>>().map_err(geometry())?;
        let views = views.chunks_exact(self.view_length());
        for ((view, place), output) in views.zip(places).zip(output.chunks_exact_mut(self.input_length())) {
            let (values, shares) = output.split_at_mut(self.view_length());
            values.copy_from_slice(view);
            let seen = self.window_of(&reaching, place).iter().map(|reaching| self.seen(reaching, place));
            let private: Vec<Mask> = seen.collect::<Result<_, _>>().map_err(geometry())?;
            let own = self.own(shown, &private).map_err(geometry())?;
            write_shares(&own, shares);
            classes.push(if own.iter().all(Mask::is_empty) { IGNORED } else { class });
        }
        Ok(())
    }

    /// What of a view belongs to a part, of which `private` marks the pixels of each frame that may depend on private ones: places of the grid
    /// that the model is told, time after time, or else pixels in any frame.
    fn own(&self, shown: ShownPart, private: &[Mask]) -> Result<Vec<Mask>, GeometryError> {
        let own: Vec<Mask> = match shown.part {
            RecordPart::Private => private.to_vec(),
            RecordPart::Public => private.iter().map(Mask::complement).collect(),
        };
        let spread = |masks: &[Mask]| -> Vec<Mask> { masks.iter().map(|mask| self.spread(mask)).collect() };
        match shown.grid {
            None => Ok(vec![Mask::union(&own)?]),
            Some(PartGrid::Cells(grid)) => grid.touched_in_frames(&spread(&own), self.shown_frames()),
            Some(PartGrid::Tokens(grid)) => {
                let touched = grid.touched_in_frames(&spread(private), self.shown_frames())?;
                Ok(touched.into_iter().map(|touched| shown.part.of(touched)).collect())
            }
        }
    }

    /// The masks of the frames that a view shows, or the one of all frames.
    fn window_of<'a>(&self, masks: &'a [Mask], shown: ShownView) -> &'a [Mask] {
        match self.normalise.frames() {
            Some(frames) if masks.len() > 1 => &masks[shown.first..shown.first + frames],
            _ => masks,
        }
    }

    /// The pixels of a view, before augmentations, that may depend on pixels which `reaching` marks in the image that reaches the crop.
    fn seen(&self, reaching: &Mask, shown: ShownView) -> Result<Mask, GeometryError> {
        let crop = reaching.crop(shown.place.x, shown.place.y, shown.place.size)?;
        let resize = Operation::Resize { to: self.output, filter: Filter::Bilinear, antialias: true };
        let flip = shown.flip.then_some(Operation::FlipHorizontal);
        let behind: Vec<Operation> = self.after.iter().copied().chain([resize]).chain(flip).collect();
        influence(&behind, &crop)
    }

    /// The pixels that augmentations may spread marked ones to.
    fn spread(&self, seen: &Mask) -> Mask {
        let reach = |augmentation: &dapple_geometry::Augmentation| augmentation.reach(self.output);
        match self.augment.iter().map(reach).fold(PixelReach::OWN, PixelReach::then) {
            PixelReach::Within { x, y } => seen.dilated(x, y),
            // `of_part` refuses it where a token must be public; a cell belongs to what lay over it.
            PixelReach::View => seen.clone(),
        }
    }
}

impl RecordPart {
    /// What belongs to the part, if `private` marks what may depend on private pixels.
    fn of(self, private: Mask) -> Mask {
        match self {
            Self::Private => private,
            Self::Public => private.complement(),
        }
    }
}

/// Writes the shares of places, the first of which is that of a class token; nothing where there is no room for any.
fn write_shares(own: &[Mask], shares: &mut [f32]) {
    let Some((class, places)) = shares.split_first_mut() else { return };
    *class = 1.0;
    let each = 1.0 / own.iter().map(Mask::count).sum::<u64>().max(1) as f32;
    let own = own.iter().flat_map(Mask::bytes);
    places.iter_mut().zip(own).for_each(|(share, own)| *share = f32::from(*own) * each);
}
