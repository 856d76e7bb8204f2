//! The page of a run, and the runs of `dapple serve`, in a headless Chromium where there is one.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

mod common;
#[path = "common/page_server.rs"]
mod page_server;

#[path = "../../serve/tests/common/chromium.rs"]
mod chromium;

use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chromium::{Browser, CONTRAST};
use common::dapple_with;
use dapple_report::Theme;
use page_server::PageServer;
use serde_json::{Value, json};

/// A classifier of drawn scenes at patch level, with a test set that has images of its own.
const PLAN: &str = r#"
[privacy]
epsilon = 4.0
delta = 1e-5

[region]
patch = [8, 8]

[pipeline]
crop = [32, 32]

[sampling]
batch = 64
steps = 12

[data]
format = "fashion-scenes"
mean = [0.35]
std = [0.3]

[model]
name = "small-cnn"

[optimiser]
learning_rate = 1.0

[train]
evaluate_every = 4
"#;

/// What is wider than the window, or cut off: elements that reach beyond it, and boxes whose content does not fit.
const LAYOUT: &str = "
    const found = [];
    const wide = document.documentElement.scrollWidth;
    if (wide > window.innerWidth) found.push(['the page', wide]);
    for (const e of document.querySelectorAll('body *')) {
        if (!e.getClientRects().length || e.closest('svg *, pre *')) continue;
        const box = e.getBoundingClientRect();
        if (box.right > window.innerWidth + 1 || box.left < -1) found.push(['beyond the window', e.outerHTML.slice(0, 80), box.right]);
        // Programs and plans have lines that are not broken, and scroll within their box.
        if (e.tagName !== 'PRE' && e.clientWidth > 1 && e.scrollWidth > e.clientWidth + 1 && !['inline', 'table-row'].includes(getComputedStyle(e).display))
            found.push(['clipped', e.outerHTML.slice(0, 80), e.scrollWidth, e.clientWidth]);
    }
    return found;";

/// Texts in drawings that are smaller on the screen than anybody reads, in pixels.
const SMALL: &str = "
    return [...document.querySelectorAll('svg')].filter((svg) => svg.getClientRects().length).flatMap((svg) => {
        const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
        return [...svg.querySelectorAll('text')].filter((t) => t.getAttribute('font-size') * scale < 6.5).map((t) => [t.textContent, scale]);
    });";

fn check(browser: &Browser, name: &str) {
    for (width, height) in [(400, 800), (1280, 800), (1920, 1080)] {
        for scheme in ["light", "dark"] {
            browser.resize(width, height);
            browser.colours(scheme);
            browser.wait("return window.innerWidth", |found| *found == width);
            browser.keep(&format!("{name}-{width}-{scheme}"));
            for (what, script) in [("layout", LAYOUT), ("contrast", CONTRAST), ("small letters", SMALL)] {
                let found = browser.script(script);
                assert_eq!(found, json!([]), "{name}, {width}, {scheme}: {what}");
            }
        }
    }
}

#[test]
fn the_page_of_a_run_fits_and_can_be_read() {
    let Some(browser) = Browser::start() else { return };
    let run = dapple_with("train plan.toml --out run --quiet", |folder| {
        std::fs::write(folder.join("plan.toml"), PLAN).unwrap();
    });
    assert_eq!(run.code, 0, "{}", run.stderr);
    let page = run.folder.path().join("run/report.html");
    browser.go(&format!("file://{}", page.display()));
    browser.script("document.querySelectorAll('details').forEach((d) => { d.open = true })");
    check(&browser, "run");
    // Two drawings stand side by side where there is room, and beneath each other where there is not.
    let places = "return [...document.querySelectorAll('.row')].filter((r) => r.children.length > 1).map((r) => [...r.children].map((c) => Math.round(c.getBoundingClientRect().left)))";
    for (width, stacked) in [(400, true), (1280, false)] {
        browser.resize(width, 800);
        browser.wait("return window.innerWidth", |found| *found == width);
        let rows = browser.script(places);
        assert!(!rows.as_array().unwrap().is_empty());
        for row in rows.as_array().unwrap() {
            assert_eq!(row[0] == row[1], stacked, "{width}: {row}");
        }
    }
    // Results come first, and what must hold comes before the plan.
    let headings = browser.script("return [...document.querySelectorAll('h2')].map((h) => h.textContent)");
    let place = |name: &str| headings.as_array().unwrap().iter().position(|found| found == name);
    let order = [
        "What the model sees",
        "Over the steps",
        "Class by class",
        "The certificate",
        "What must hold",
        "The plan",
    ];
    let places: Vec<_> =
        order.iter().map(|name| place(name).unwrap_or_else(|| panic!("{name}: {headings}"))).collect();
    assert!(places.is_sorted(), "{headings}");
    // Pictures are there, and one of them lies under the crops.
    let pictures = "return [...document.querySelectorAll('img, image')].every((i) => i.tagName === 'image' || i.naturalWidth > 0) && document.querySelectorAll('.gallery img').length";
    assert_eq!(browser.script(pictures), 8);
    assert_eq!(browser.script("return document.querySelectorAll('svg image').length"), 1);
    let text = std::fs::read_to_string(&page).unwrap();
    let home = run.folder.path().display().to_string();
    assert!(!text.contains(&home), "no folder of this machine is named");
}

#[test]
fn figures_are_written_with_titles_and_without() {
    let run = dapple_with("train plan.toml --out run --quiet", |folder| {
        std::fs::write(folder.join("plan.toml"), PLAN).unwrap();
    });
    let report = |arguments: &[&str]| {
        let mut report = Command::new(env!("CARGO_BIN_EXE_dapple"));
        let output =
            report.args(["report", "run"]).args(arguments).current_dir(run.folder.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    report(&["--figures", "whole"]);
    report(&["--figures", "bare", "--bare"]);
    for name in ["budget", "score", "loss", "epsilon", "classes", "confusion", "crops"] {
        for folder in ["whole", "bare"] {
            let pdf = std::fs::read(run.folder.path().join(folder).join(format!("{name}.pdf"))).unwrap();
            assert!(pdf.starts_with(b"%PDF-") && pdf.ends_with(b"%%EOF\n"), "{name}");
        }
    }
    // The title goes, and the axes stay.
    let read =
        |folder: &str| std::fs::read_to_string(run.folder.path().join(folder).join("score.svg")).unwrap();
    assert!(
        read("whole").contains(">Accuracy on the test set</text>")
            && !read("bare").contains(">Accuracy on the test set</text>")
    );
    assert!(read("bare").contains(">step<"));
}

/// The side of the squares whose mean colours are compared, in pixels. Letters differ, because the browser draws them in a font of the system.
const SQUARE: u32 = 16;
/// How far the mean colours may be apart, of 255, on the average over all squares. Letters in another font make at most 1.1 of it (measured on
/// these drawings, with the fonts of Debian); the colours of the other scheme are more than 160 away.
const ALIKE: f64 = 2.0;
const OTHER: f64 = 80.0;

fn squares(picture: &image::RgbImage) -> Vec<[f64; 3]> {
    let mut means = Vec::new();
    for top in (0..picture.height() - SQUARE).step_by(SQUARE as usize) {
        for left in (0..picture.width() - SQUARE).step_by(SQUARE as usize) {
            let mut sums = [0.0; 3];
            for (x, y) in (0..SQUARE).flat_map(|y| (0..SQUARE).map(move |x| (left + x, top + y))) {
                let pixel = picture.get_pixel(x, y).0;
                sums.iter_mut().zip(pixel).for_each(|(sum, value)| *sum += f64::from(value));
            }
            means.push(sums.map(|sum| sum / f64::from(SQUARE * SQUARE)));
        }
    }
    means
}

fn apart(a: &image::RgbImage, b: &image::RgbImage) -> f64 {
    let (a, b) = (squares(a), squares(b));
    assert_eq!(a.len(), b.len());
    let distance =
        |(a, b): (&[f64; 3], &[f64; 3])| a.iter().zip(b).map(|(a, b)| (a - b).abs()).sum::<f64>() / 3.0;
    a.iter().zip(&b).map(distance).sum::<f64>() / a.len() as f64
}

/// What the browser makes of a drawing is what our own writer of pictures makes of it.
#[test]
fn drawings_look_the_same_in_the_browser() {
    let Some(browser) = Browser::start() else { return };
    let names: Vec<String> = (0..6).map(|class| format!("class {class}")).collect();
    let counts: Vec<Vec<u64>> = (0..6)
        .map(|class| (0..6).map(|said| if class == said { 8 } else { (class + said) % 3 }).collect())
        .collect();
    let values: Vec<Option<f64>> = (0..6).map(|class| Some(f64::from(class) / 6.0)).collect();
    let drawings = [
        ("confusion", dapple_report::confusion_map(&names, &counts).unwrap()),
        ("classes", dapple_report::class_bars("IoU", &names, &values)),
        ("crops", dapple_report::crop::crop_graphic(&dapple_report::CropPicture::default()).unwrap()),
    ];
    let folder = tempfile::tempdir().unwrap();
    for (name, drawing) in drawings {
        let page = folder.path().join(format!("{name}.html"));
        let svg = drawing.to_svg(Theme::Auto);
        std::fs::write(
            &page,
            format!("<!DOCTYPE html><style>body{{margin:0}}svg{{display:block}}</style>{svg}"),
        )
        .unwrap();
        browser.go(&format!("file://{}", page.display()));
        browser.resize(drawing.width as u32, drawing.height as u32);
        let drawn = |theme| {
            let bytes = drawing.to_png(theme, 1.0).unwrap();
            image::load_from_memory(&bytes).unwrap().into_rgb8()
        };
        for (scheme, theme, other) in
            [("light", Theme::Light, Theme::Dark), ("dark", Theme::Dark, Theme::Light)]
        {
            browser.colours(scheme);
            let shot = browser.call("GET", "/screenshot", &Value::Null).unwrap();
            let bytes = STANDARD.decode(shot.as_str().unwrap()).unwrap();
            let shot = image::load_from_memory(&bytes).unwrap().into_rgb8();
            let (same, different) = (apart(&shot, &drawn(theme)), apart(&shot, &drawn(other)));
            assert!(same < ALIKE && different > OTHER, "{name}, {scheme}: {same} {different}");
        }
    }
}

/// Starts a run by the keyboard, refuses once, watches it end, compares it, and asks its model about a picture.
#[test]
fn a_run_is_started_watched_and_asked_in_the_browser() {
    let Some(browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("plan.toml"), PLAN).unwrap();
    let served = PageServer::start(folder.path(), &["plan.toml"]);
    browser.go(&served.url);
    let epsilon = browser.epsilon(0, 0.0);
    browser.script("document.getElementById('to-runs').focus()");
    browser.press("\u{e007}");
    browser.wait(
        "return !document.getElementById('start').disabled && !document.getElementById('runs').hidden",
        |there| there == true,
    );
    let spoken = "return document.getElementById('confirm').open";
    browser.script("document.getElementById('start').focus()");
    browser.press("\u{e007}");
    browser.wait(spoken, |open| open == true);
    // Whoever presses a key too often spends nothing: the focus is on the way out, and Escape closes, too.
    assert_eq!(browser.script("return document.activeElement.id"), "refuse");
    let words = browser.script("return document.getElementById('confirm').textContent");
    assert!(words.as_str().unwrap().contains(&format!("epsilon of at most {epsilon}")), "{words}");
    browser.press("\u{e00c}");
    browser.wait(spoken, |open| open == false);
    assert!(!folder.path().join("runs").exists());
    browser.script("document.getElementById('start').focus()");
    browser.press("\u{e007}");
    browser.wait(spoken, |open| open == true);
    browser.script("document.getElementById('agree').focus()");
    browser.press("\u{e007}");
    let standing = "return document.getElementById('run-standing').textContent";
    browser.wait(standing, |text| text.as_str().unwrap().starts_with("finished; 12 of 12 steps"));
    let row = browser
        .wait("const r = document.querySelector('#table tbody tr'); return r ? r.textContent : ''", |text| {
            text.as_str().unwrap().contains("finished")
        });
    assert!(row.as_str().unwrap().contains("plan-1"), "{row}");
    browser.script("document.querySelector('#table input').click()");
    browser.wait("return document.querySelectorAll('#comparison svg').length", |count| count == 1);
    browser.wait("return document.querySelectorAll('#run-drawing svg').length", |count| count == 1);
    // A picture as it comes from a file, of the size of the plan's images.
    browser.script(
        "const c = document.createElement('canvas'); c.width = c.height = 128; const p = c.getContext('2d'); p.fillStyle = '#888'; p.fillRect(0, 0, 128, 128);
         c.toBlob((blob) => { const t = new DataTransfer(); t.items.add(new File([blob], 'a.png', { type: 'image/png' }));
         const input = document.getElementById('picture'); input.files = t.files; input.dispatchEvent(new Event('change')) })",
    );
    let answer = browser.wait("return document.getElementById('answer').textContent", |text| {
        text.as_str().unwrap().contains('%')
    });
    assert!(answer.as_str().unwrap().contains(": "), "{answer}");
    browser.script("document.getElementById('report').open = true");
    browser.wait("return (document.querySelector('iframe').srcdoc || '').length", |length| {
        length.as_u64() > Some(1000)
    });
    check(&browser, "runs");
    let nameless = "return [...document.querySelectorAll('input,select,textarea,button,canvas,iframe,progress')].filter((e) => \
        !(e.labels && e.labels.length) && !e.getAttribute('aria-label') && !e.title && !e.textContent.trim()).map((e) => e.outerHTML)";
    // The button that spends says what once it is asked.
    assert_eq!(browser.script(nameless), json!([]));
    let log = browser.call("POST", "/se/log", &json!({ "type": "browser" })).unwrap();
    let severe = |entry: &&Value| {
        entry["level"] == "SEVERE" && !entry["message"].as_str().unwrap().contains("favicon")
    };
    let severe: Vec<&Value> = log.as_array().unwrap().iter().filter(severe).collect();
    assert!(severe.is_empty(), "{severe:?}");
}
