//! The shape of a convolution, and the tables its kernels read.

use dapple_graph::Window;

/// The coordinate of table rows that are meant to lie outside of every image.
const OUTSIDE: i32 = -(1 << 20);
/// How many rows a kernel's tile reads together. Tables are filled up to a multiple of it.
const TILE: usize = 128;

/// The sizes of a convolution over three axes. Images have a first axis of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub(crate) rank: usize,
    pub(crate) channels: usize,
    pub(crate) out: usize,
    pub(crate) groups: usize,
    pub(crate) input: [usize; 3],
    pub(crate) output: [usize; 3],
    pub(crate) kernel: [usize; 3],
    pub(crate) stride: [usize; 3],
    pub(crate) padding: [usize; 3],
    pub(crate) dilation: [usize; 3],
}

/// Two or three values as three, with `fill` in front.
fn three(values: &[usize], fill: usize) -> [usize; 3] {
    let mut result = [fill; 3];
    for (to, from) in result.iter_mut().rev().zip(values.iter().rev()) {
        *to = *from;
    }
    result
}

impl Geometry {
    pub(crate) fn new(window: &Window, groups: usize, input: &[usize], output: &[usize]) -> Self {
        Self {
            rank: window.kernel.len(),
            channels: input[0],
            out: output[0],
            groups,
            input: three(&input[1..], 1),
            output: three(&output[1..], 1),
            kernel: three(&window.kernel, 1),
            stride: three(&window.stride, 1),
            padding: three(&window.padding, 0),
            dilation: three(&window.dilation, 1),
        }
    }

    pub(crate) fn positions_in(&self) -> usize {
        self.input.iter().product()
    }

    pub(crate) fn positions(&self) -> usize {
        self.output.iter().product()
    }

    pub(crate) fn taps(&self) -> usize {
        self.kernel.iter().product()
    }

    /// Whether every output position reads the input position of the same number, so that the convolution is a matrix product.
    pub(crate) fn is_pointwise(&self) -> bool {
        self.taps() == 1 && self.groups == 1 && self.stride == [1; 3] && self.padding == [0; 3]
    }

    /// Whether every output position reads one input position while others are skipped, so that the convolution is a matrix product over
    /// those that are read.
    pub(crate) fn is_subsampled(&self) -> bool {
        self.taps() == 1 && self.groups == 1 && self.stride != [1; 3] && self.padding == [0; 3]
    }

    /// The same convolution over only the positions that it reads, if it skips others.
    pub(crate) fn read(&self) -> Option<Self> {
        self.is_subsampled().then(|| Self { input: self.output, stride: [1; 3], ..self.clone() })
    }

    /// How many numbers a sample's unfolded image and its output's gradient have together, in rows whose length four divides.
    pub(crate) fn unfolded_len(&self) -> usize {
        (self.inner() + self.out) * self.unfolded_pitch()
    }

    pub(crate) fn unfolded_pitch(&self) -> usize {
        self.positions().next_multiple_of(4)
    }

    /// The number of weights of one filter.
    pub(crate) fn inner(&self) -> usize {
        self.channels / self.groups * self.taps()
    }

    pub(crate) fn weight_len(&self) -> usize {
        self.out * self.inner()
    }

    /// The table that the kernels of windows read: input, output, kernel, stride, padding and dilation.
    pub(crate) fn window_table(&self) -> Vec<i32> {
        [self.input, self.output, self.kernel, self.stride, self.padding, self.dilation]
            .iter()
            .flatten()
            .map(|&value| value as i32)
            .collect()
    }

    /// The same table for a window that reads each output position as it is.
    pub(crate) fn output_table(&self) -> Vec<i32> {
        let one = [1; 3];
        [self.output, self.output, one, one, [0; 3], one]
            .iter()
            .flatten()
            .map(|&value| value as i32)
            .collect()
    }

    fn indices(size: [usize; 3]) -> impl Iterator<Item = [i32; 3]> {
        let range = |axis: usize| 0..size[axis] as i32;
        range(0).flat_map(move |z| {
            (0..size[1] as i32).flat_map(move |y| (0..size[2] as i32).map(move |x| [z, y, x]))
        })
    }

    fn flat(at: [i32; 3], size: [usize; 3]) -> i32 {
        (at[0] * size[1] as i32 + at[1]) * size[2] as i32 + at[2]
    }

    fn filled(rows: impl Iterator<Item = [i32; 4]>) -> Vec<i32> {
        let mut table: Vec<i32> = rows.flatten().collect();
        while !table.len().is_multiple_of(4 * TILE) {
            table.extend([0, OUTSIDE, 0, 0]);
        }
        table
    }

    /// The table of taps and the table of positions for the weight gradient.
    pub(crate) fn forward_tables(&self) -> (Vec<i32>, Vec<i32>) {
        let plane = self.positions_in() as i32;
        let taps = (0..(self.channels / self.groups) as i32).flat_map(|channel| {
            Self::indices(self.kernel).map(move |tap| {
                let at: [i32; 3] = std::array::from_fn(|axis| tap[axis] * self.dilation[axis] as i32);
                [channel * plane + Self::flat(at, self.input), at[0], at[1], at[2]]
            })
        });
        let places = Self::indices(self.output).map(|position| {
            let at: [i32; 3] = std::array::from_fn(|axis| {
                position[axis] * self.stride[axis] as i32 - self.padding[axis] as i32
            });
            [Self::flat(at, self.input), at[0], at[1], at[2]]
        });
        (Self::filled(taps), Self::filled(places))
    }

    /// For every output position and tap, the input position, or -1 in the padding.
    pub(crate) fn sources(&self) -> Vec<i32> {
        Self::indices(self.output)
            .flat_map(|position| {
                Self::indices(self.kernel).map(move |tap| {
                    let at: [i32; 3] = std::array::from_fn(|axis| {
                        position[axis] * self.stride[axis] as i32 - self.padding[axis] as i32
                            + tap[axis] * self.dilation[axis] as i32
                    });
                    let inside = (0..3).all(|axis| (0..self.input[axis] as i32).contains(&at[axis]));
                    if inside { Self::flat(at, self.input) } else { -1 }
                })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both ways to say where a tap reads, by table rows and by listing every source, must agree.
    #[test]
    fn tables_say_where_taps_read() {
        let window =
            Window { kernel: vec![3, 2], stride: vec![2, 1], padding: vec![1, 0], dilation: vec![1, 2] };
        let output = window.output(&[5, 6]).unwrap_or_default();
        let geometry = Geometry::new(&window, 1, &[2, 5, 6], &[4, output[0], output[1]]);
        let (taps, places) = geometry.forward_tables();
        let sources = geometry.sources();
        for position in 0..geometry.positions() {
            for tap in 0..geometry.taps() {
                let (row, place) = (&taps[4 * tap..][..4], &places[4 * position..][..4]);
                let inside = (0..3).all(|axis| {
                    (0..geometry.input[axis] as i32).contains(&(row[axis + 1] + place[axis + 1]))
                });
                let want = sources[position * geometry.taps() + tap];
                assert_eq!(if inside { row[0] + place[0] } else { -1 }, want, "{position} {tap}");
            }
        }
    }
}
