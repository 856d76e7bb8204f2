//! Affine warps of views and of their labels.

use dapple_geometry::Size;

use super::ViewPlanes;
use crate::IGNORED;

/// Which place of the view each pixel of the warped view shows: `x' = a x + b y + c`, `y' = d x + e y + f`, counted from the centre.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::views) struct Warp([f64; 6]);

impl Warp {
    /// Undoes a rotation by `angle` degrees clockwise, a scaling and a shear in degrees about a centre, and a shift, in torchvision's
    /// order and orientation.
    pub(super) fn new(
        angle: f64,
        shift: (f64, f64),
        scale: f64,
        shear: (f64, f64),
        centre: (f64, f64),
    ) -> Self {
        let (sine, cosine) = angle.to_radians().sin_cos();
        let (tan_x, tan_y) = (shear.0.to_radians().tan(), shear.1.to_radians().tan());
        let a = cosine + sine * tan_y;
        let b = -a * tan_x - sine;
        let c = sine - cosine * tan_y;
        let d = cosine - c * tan_x;
        // The determinant of [a, b; c, d] is 1.
        let [xx, xy, yx, yy] = [d, -b, -c, a].map(|entry| entry / scale);
        let (x, y) = (centre.0 + shift.0, centre.1 + shift.1);
        Self([xx, xy, centre.0 - xx * x - xy * y, yx, yy, centre.1 - yx * x - yy * y])
    }

    /// Calls `visit` for each pixel of a view in order, with the place it shows, in pixels from the centre of the first one.
    fn places(&self, view: Size, mut visit: impl FnMut(usize, f64, f64)) {
        let [a, b, c, d, e, f] = self.0;
        let middle = |side: u32| (f64::from(side) - 1.0) / 2.0;
        let (middle_x, middle_y) = (middle(view.width()), middle(view.height()));
        let mut pixel = 0;
        for row in 0..view.height() {
            let y = f64::from(row) - middle_y;
            let (start_x, start_y) = (b * y + c + middle_x, e * y + f + middle_y);
            for column in 0..view.width() {
                let x = f64::from(column) - middle_x;
                visit(pixel, a * x + start_x, d * x + start_y);
                pixel += 1;
            }
        }
    }

    /// Shows the places between pixels by bilinear interpolation; what lies outside is black.
    pub(super) fn apply(&self, view: &mut ViewPlanes<'_>) {
        let (width, height, pixels) =
            (i64::from(view.size.width()), i64::from(view.size.height()), view.pixels());
        let copy = view.copy();
        let channels = view.values.len() / pixels;
        let size = view.size;
        self.places(size, |pixel, x, y| {
            let (left, top) = (x.floor(), y.floor());
            let (right_share, lower_share) = ((x - left) as f32, (y - top) as f32);
            let (left, top) = (left as i64, top as i64);
            let corners = [
                (left, top, (1.0 - right_share) * (1.0 - lower_share)),
                (left + 1, top, right_share * (1.0 - lower_share)),
                (left, top + 1, (1.0 - right_share) * lower_share),
                (left + 1, top + 1, right_share * lower_share),
            ]
            .map(|(x, y, share)| {
                let inside = (0..width).contains(&x) && (0..height).contains(&y) && share > 0.0;
                if inside { ((y * width + x) as usize, share) } else { (0, 0.0) }
            });
            for channel in 0..channels {
                let plane = &copy[channel * pixels..][..pixels];
                view.values[channel * pixels + pixel] =
                    corners.iter().map(|&(place, share)| share * plane[place]).sum();
            }
        });
    }

    /// Shows the label of the nearest pixel; what lies outside has none.
    pub(in crate::views) fn apply_to_labels(&self, size: Size, labels: &mut [u32]) {
        let copy = labels.to_vec();
        let (width, height) = (i64::from(size.width()), i64::from(size.height()));
        self.places(size, |pixel, x, y| {
            let (x, y) = (x.round_ties_even() as i64, y.round_ties_even() as i64);
            let inside = (0..width).contains(&x) && (0..height).contains(&y);
            labels[pixel] = if inside { copy[(y * width + x) as usize] } else { IGNORED };
        });
    }
}
