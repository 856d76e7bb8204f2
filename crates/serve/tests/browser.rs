//! Uses the page as people do, in a headless Chromium that its driver steers, where both are installed.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

#[path = "common/chromium.rs"]
mod chromium;
#[path = "common/desk.rs"]
mod desk;

use std::sync::mpsc;

use chromium::{Browser, CONTRAST, PATIENCE};
use dapple_plan::PlanSpec;
use dapple_serve::{Explorer, serve};
use desk::empty_desk;
use serde_json::{Value, json};

const STREET: &str = "[privacy]\nrelation = 'patch'\ndelta = '1/n'\nnoise_multiplier = 1.0\n[region]\npatch = [10, 10]\n\
    [pipeline]\nimage = [2048, 1024]\ncrop = [505, 505]\n[sampling]\nscheme = 'poisson'\nbatch = 200\nrecords = 2975\nepochs = 100\n";

fn page() -> String {
    let (tell, told) = mpsc::channel();
    let explorer = Explorer::new(PlanSpec::from_toml(STREET).unwrap(), Vec::new());
    std::thread::spawn(move || {
        serve(explorer, empty_desk(), 0, |address| tell.send(address.url.clone()).unwrap())
    });
    told.recv_timeout(PATIENCE).unwrap()
}

/// The first figure is the README's for this plan (100 epochs: epsilon 7.2 at crops of 500, 505 here).
#[test]
fn controls_move_the_price() {
    let Some(browser) = Browser::start() else { return };
    let url = page();
    browser.go(&url);
    let (patch, record) = (browser.epsilon(0, 0.0), browser.epsilon(1, 0.0));
    assert!(patch > 7.1 && patch < 7.7 && record > patch, "{patch} {record}");
    // By keyboard: the crop is a slider, and one step to the right is a larger crop, which sees more.
    browser.script("document.getElementById('crop').focus()");
    browser.press("\u{E014}");
    let larger = browser.epsilon(0, patch);
    assert!(larger > patch);
    assert_eq!(browser.script("return document.querySelector('output[for=crop]').textContent"), "506 pixels");
    assert!(browser.script("return document.getElementById('toml').value").as_str().unwrap().contains("506"));
    // The budget in the place of the noise: the noise becomes what is solved for.
    browser.script("document.getElementById('given-epsilon').click()");
    browser
        .wait("return !document.getElementById('epsilon').closest('.control').hidden", |shown| shown == true);
    browser
        .wait("return document.getElementById('noise').closest('.control').hidden", |hidden| hidden == true);
    browser.wait("return document.getElementById('rates').textContent", |text| {
        text.as_str().unwrap().contains("solved for the budget")
    });
    // Dragging asks for many prices, and the last one is shown.
    let before = browser.epsilon(0, 0.0);
    browser.script("const e = document.getElementById('epsilon'); for (let v = 300; v >= 150; v -= 5) { e.value = v; e.dispatchEvent(new Event('input', { bubbles: true })) }");
    let target = browser.wait("return document.querySelector('output[for=epsilon]').textContent", |text| {
        text.as_str().and_then(|text| text.parse::<f64>().ok()).is_some_and(|value| value < 0.35)
    });
    let target: f64 = target.as_str().unwrap().parse().unwrap();
    let reached = browser.epsilon(0, before);
    assert!(reached <= target * 1.001 && reached > 0.99 * target, "{reached} {target}");
    // Drawings appear.
    browser.wait("return document.querySelectorAll('#drawing svg').length", |count| count == 1);
    browser.wait("return document.getElementById('coverage').hidden", |hidden| hidden == false);
    // Nothing was complained about on the way, by the page's own policy least of all.
    let log = browser.call("POST", "/se/log", &json!({ "type": "browser" })).unwrap();
    let severe: Vec<&Value> = log
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["level"] == "SEVERE" && !entry["message"].as_str().unwrap().contains("favicon"))
        .collect();
    assert!(severe.is_empty(), "{severe:?}");
}

#[test]
fn a_link_restores_a_plan_and_mistakes_are_told() {
    let Some(browser) = Browser::start() else { return };
    let url = page();
    browser.go(&url);
    let first = browser.epsilon(0, 0.0);
    browser.script("document.getElementById('toml').value = document.getElementById('toml').value.replace('epochs = 100', 'epochs = 10'); document.getElementById('use').click()");
    let shorter = browser.epsilon(0, first);
    assert!(shorter < first);
    browser.script("document.getElementById('link').click()");
    let link = browser.wait("return location.href", |href| href.as_str().unwrap().contains('#'));
    browser.go("about:blank");
    browser.go(link.as_str().unwrap());
    assert_eq!(browser.epsilon(0, 0.0), shorter);
    browser.script("document.getElementById('toml').value = '[privacy]\\nnoise = 1'; document.getElementById('use').click()");
    let told = browser
        .wait("const p = document.getElementById('problem'); return p.hidden ? '' : p.textContent", |text| {
            text != ""
        });
    assert!(told.as_str().unwrap().contains("noise_multiplier"), "{told}");
}

/// At any width and in both colour schemes everything that is shown fits, has a name, and can be told from its background.
#[test]
fn it_fits_and_can_be_read() {
    let Some(browser) = Browser::start() else { return };
    browser.go(&page());
    browser.epsilon(0, 0.0);
    browser.wait("return document.querySelectorAll('#drawing svg').length", |count| count == 1);
    for (width, height) in [(400, 800), (1280, 800), (1920, 1080)] {
        for scheme in ["light", "dark"] {
            browser.resize(width, height);
            browser.colours(scheme);
            let wide = browser
                .wait("return [document.documentElement.scrollWidth, window.innerWidth]", |sizes| {
                    sizes[1] == width
                });
            assert!(wide[0].as_u64() <= wide[1].as_u64(), "{width} {scheme}: {wide}");
            browser.keep(&format!("explore-{width}-{scheme}"));
            let contrast = browser.script(CONTRAST);
            assert!(contrast.as_array().unwrap().is_empty(), "{width} {scheme}: {contrast}");
        }
    }
    let nameless = "return [...document.querySelectorAll('input,select,textarea,button,canvas')].filter((e) => \
        !(e.labels && e.labels.length) && !e.getAttribute('aria-label') && !e.textContent.trim()).map((e) => e.outerHTML)";
    assert_eq!(browser.script(nameless), json!([]));
}
