//! The street: flat shapes, by day on light paper and by night on dark.

use crate::{
    graphic::{Fill, Graphic, GraphicPoint, Rect, Stroke},
    paint::{Paint, Rgb},
};

const fn paint(name: &'static str, light: Rgb, dark: Rgb) -> Paint {
    Paint { name, light, dark }
}

const SKY: Paint = paint("street-sky", Rgb(214, 232, 245), Rgb(28, 38, 56));
const SUN: Paint = paint("street-sun", Rgb(250, 214, 120), Rgb(214, 218, 226));
const FAR: Paint = paint("street-far", Rgb(186, 204, 219), Rgb(42, 53, 72));
const NEAR: Paint = paint("street-near", Rgb(163, 181, 197), Rgb(54, 65, 84));
const WINDOW: Paint = paint("street-window", Rgb(208, 221, 232), Rgb(120, 110, 78));
const PAVEMENT: Paint = paint("street-pavement", Rgb(205, 207, 209), Rgb(66, 70, 77));
const ROAD: Paint = paint("street-road", Rgb(135, 142, 150), Rgb(43, 47, 54));
const MARKING: Paint = paint("street-marking", Rgb(240, 242, 244), Rgb(126, 132, 140));
const TRUNK: Paint = paint("street-trunk", Rgb(128, 103, 84), Rgb(84, 70, 60));
const LEAVES: Paint = paint("street-leaves", Rgb(120, 168, 128), Rgb(52, 92, 70));
const CAR: Paint = paint("street-car", Rgb(58, 96, 140), Rgb(70, 112, 160));
const CAR_DARK: Paint = paint("street-car-dark", Rgb(43, 73, 108), Rgb(50, 82, 120));
const GLASS: Paint = paint("street-glass", Rgb(196, 217, 232), Rgb(30, 40, 56));
const TYRE: Paint = paint("street-tyre", Rgb(45, 49, 54), Rgb(18, 20, 23));
const LAMP: Paint = paint("street-lamp", Rgb(204, 70, 58), Rgb(226, 92, 78));
const PLATE: Paint = paint("street-plate", Rgb(252, 247, 226), Rgb(240, 232, 200));
const LETTER: Paint = paint("street-letter", Rgb(60, 60, 60), Rgb(60, 60, 60));

/// Share of the image above the road.
const HORIZON: f64 = 0.60;

/// Draws the street into a frame, with a car whose plate is exactly `plate`.
pub(super) fn draw(graphic: &mut Graphic, frame: &Rect, plate: &Rect) {
    let at = |x: f64, y: f64| (frame.x + x * frame.width, frame.y + y * frame.height);
    let block = |x: f64, y: f64, width: f64, height: f64| {
        let (x, y) = at(x, y);
        Rect::new(x, y, width * frame.width, height * frame.height)
    };
    let fill = |graphic: &mut Graphic, area: Rect, paint: Paint| {
        graphic.rect(area, 0.0, Some(Fill::solid(paint)), None)
    };

    fill(graphic, *frame, SKY);
    graphic.circle(at(0.86, 0.15), 0.05 * frame.width.min(frame.height), Some(Fill::solid(SUN)), None);
    for (x, width, height) in
        [(0.0, 0.10, 0.34), (0.17, 0.09, 0.27), (0.36, 0.12, 0.40), (0.62, 0.10, 0.30), (0.90, 0.10, 0.36)]
    {
        fill(graphic, block(x, HORIZON - height, width, height), FAR);
    }
    for (x, width, height) in [(0.07, 0.12, 0.25), (0.25, 0.13, 0.31), (0.46, 0.11, 0.22), (0.70, 0.14, 0.27)]
    {
        let house = block(x, HORIZON - height, width, height);
        fill(graphic, house, NEAR);
        draw_windows(graphic, &house);
    }
    fill(graphic, block(0.0, HORIZON, 1.0, 0.06), PAVEMENT);
    for (x, height) in [(0.045, 0.20), (0.225, 0.16), (0.955, 0.19)] {
        // In an upright image a tree must not grow beyond the side.
        draw_tree(graphic, at(x, HORIZON + 0.03), height * frame.height.min(0.6 * frame.width));
    }
    fill(graphic, block(0.0, HORIZON + 0.06, 1.0, 0.94 - HORIZON), ROAD);
    for index in 0..7 {
        fill(graphic, block(0.02 + 0.15 * f64::from(index), 0.815, 0.07, 0.014), MARKING);
    }
    draw_car(graphic, frame, plate);
}

fn draw_windows(graphic: &mut Graphic, house: &Rect) {
    let (columns, rows) = (4, 5);
    let (step_x, step_y) = (house.width / f64::from(columns), house.height / f64::from(rows));
    for column in 0..columns {
        for row in 0..rows {
            let (x, y) =
                (house.x + (f64::from(column) + 0.3) * step_x, house.y + (f64::from(row) + 0.3) * step_y);
            let area = Rect::new(x, y, 0.4 * step_x, 0.45 * step_y);
            graphic.rect(area, 0.0, Some(Fill::solid(WINDOW)), None);
        }
    }
}

fn draw_tree(graphic: &mut Graphic, (x, y): GraphicPoint, height: f64) {
    let trunk = Rect::new(x - 0.04 * height, y - 0.5 * height, 0.08 * height, 0.5 * height);
    graphic.rect(trunk, 0.0, Some(Fill::solid(TRUNK)), None);
    for (dx, dy, radius) in [(-0.13, 0.58, 0.17), (0.13, 0.58, 0.17), (0.0, 0.76, 0.20)] {
        graphic.circle((x + dx * height, y - dy * height), radius * height, Some(Fill::solid(LEAVES)), None);
    }
}

/// A car from behind, of a size that suits its plate, as far as the image has room.
fn draw_car(graphic: &mut Graphic, frame: &Rect, plate: &Rect) {
    let middle = (plate.x + plate.width / 2.0, plate.y + plate.height / 2.0);
    let room = 2.0 * (middle.0 - frame.x).min(frame.right() - middle.0);
    let width = (plate.width * 3.8).max(0.22 * frame.width).min(0.45 * frame.width).min(room);
    let unit = width / 100.0;
    // The plate's middle is the origin: x to the right, y downwards, the car 100 wide; cut at the frame.
    let at = |x: f64, y: f64| {
        (
            (middle.0 + x * unit).clamp(frame.x, frame.right()),
            (middle.1 + y * unit).clamp(frame.y, frame.bottom()),
        )
    };
    let block = |x: f64, y: f64, width: f64, height: f64| {
        let (start, end) = (at(x, y), at(x + width, y + height));
        Rect::new(start.0, start.1, end.0 - start.0, end.1 - start.1)
    };
    let mut fill = |area: Rect, radius: f64, paint: Paint| {
        graphic.rect(area, radius * unit, Some(Fill::solid(paint)), None);
    };
    fill(block(-44.0, 10.0, 18.0, 22.0), 4.0, TYRE);
    fill(block(26.0, 10.0, 18.0, 22.0), 4.0, TYRE);
    fill(block(-48.0, -24.0, 96.0, 48.0), 9.0, CAR);
    fill(block(-48.0, 10.0, 96.0, 14.0), 5.0, CAR_DARK);
    for (x, width) in [(-45.0, 15.0), (30.0, 15.0)] {
        fill(block(x, -16.0, width, 9.0), 2.0, LAMP);
    }
    let roof = [(-37.0, -22.0), (-27.0, -48.0), (27.0, -48.0), (37.0, -22.0)].map(|(x, y)| at(x, y));
    let glass = [(-31.0, -23.0), (-23.5, -43.5), (23.5, -43.5), (31.0, -23.0)].map(|(x, y)| at(x, y));
    graphic.shapes.push(crate::graphic::GraphicShape::Polygon {
        points: roof.to_vec(),
        fill: Some(Fill::solid(CAR)),
        stroke: Some(Stroke::solid(CAR, 2.0 * unit)),
    });
    graphic.polygon(glass.to_vec(), Fill::solid(GLASS));
    graphic.rect(*plate, 1.0, Some(Fill::solid(PLATE)), None);
    for index in 0..5 {
        let x = plate.x + plate.width * (0.14 + 0.155 * f64::from(index));
        let letter = Rect::new(x, plate.y + 0.28 * plate.height, 0.1 * plate.width, 0.44 * plate.height);
        graphic.rect(letter, 0.0, Some(Fill::solid(LETTER)), None);
    }
}
