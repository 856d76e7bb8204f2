//! Speaks to the server as a browser, and as somebody who should not be heard.

#![allow(clippy::unwrap_used)]

#[path = "common/desk.rs"]
mod desk;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;
use std::time::Duration;

use dapple_plan::{Mask, PlanSpec};
use dapple_serve::{Explorer, ServerAddress, serve};
use desk::empty_desk;
use serde_json::{Value, json};

/// The example of the README: images of 2048x1024, crops of 505x505, patches of 10x10.
const STREET: &str = "[privacy]\nrelation = 'patch'\ndelta = '1/n'\nnoise_multiplier = 1.0\n[region]\npatch = [10, 10]\n\
    [pipeline]\nimage = [2048, 1024]\ncrop = [505, 505]\n[sampling]\nscheme = 'poisson'\nbatch = 200\nrecords = 2975\nepochs = 100\n";

/// A server that goes away with the test's process.
fn started(plan: &str) -> ServerAddress {
    let (tell, told) = mpsc::channel();
    let explorer = Explorer::new(PlanSpec::from_toml(plan).unwrap(), Vec::<Mask>::new());
    std::thread::spawn(move || {
        serve(explorer, empty_desk(), 0, |address| tell.send(address.clone()).unwrap())
    });
    told.recv_timeout(Duration::from_secs(60)).unwrap()
}

/// The secret, as the page sends it.
fn bearer(address: &ServerAddress) -> String {
    let token = address.url.split_once("/?token=").unwrap().1;
    format!("authorization: Bearer {token}\r\n")
}

struct Heard {
    status: u16,
    head: String,
    body: String,
}

/// Sends a request as it stands.
fn send(address: &ServerAddress, request: &str) -> Heard {
    let mut stream = TcpStream::connect(("127.0.0.1", address.port)).unwrap();
    // A request that is too long is answered before all of it was read.
    let _ = stream.write_all(request.as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Heard { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
}

fn request(address: &ServerAddress, line: &str, headers: &str, body: &str) -> Heard {
    let (port, length) = (address.port, body.len());
    let host = if headers.contains("host:") { String::new() } else { format!("host: 127.0.0.1:{port}\r\n") };
    send(
        address,
        &format!(
            "{line} HTTP/1.1\r\n{host}{headers}connection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        ),
    )
}

fn ask(address: &ServerAddress, what: &str, question: &Value) -> (u16, Value) {
    let headers = format!("content-type: application/json\r\n{}", bearer(address));
    let heard = request(address, &format!("POST /api/{what}"), &headers, &question.to_string());
    (heard.status, serde_json::from_str(&heard.body).unwrap())
}

/// The figures are those of the README, which a test of the command line holds to the accountant.
#[test]
fn a_plan_is_priced_at_both_levels() {
    let address = started(STREET);
    let (status, answer) = ask(&address, "price", &json!({ "set": { "sampling.epochs": "50" } }));
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["levels"][0]["epsilon"]["shown"], "4.852");
    assert_eq!(answer["levels"][0]["epsilon"]["shown_lower"], "4.847");
    assert_eq!(answer["plan_hash"], "b65865bc228ca84a8431426dc963133cff1b1c31d11e16f8e86dc848eadb6ef1");
    assert_eq!(
        (&answer["levels"][1]["relation"], &answer["rates"]["steps"]),
        (&json!("replace"), &json!(750))
    );
    assert!(answer["levels"][1]["epsilon"]["upper"].as_f64().unwrap() > 4.9);
    // What is copied is the plan that was priced, and gives the same price.
    let (_, again) = ask(&address, "price", &json!({ "plan": answer["toml"] }));
    assert_eq!(again["levels"], answer["levels"]);
    // The budget in the place of the noise.
    let asked = json!({ "unset": ["privacy.noise_multiplier"], "set": { "privacy.epsilon": "2" } });
    let (status, solved) = ask(&address, "price", &asked);
    assert_eq!(status, 200, "{solved}");
    let epsilon = solved["levels"][0]["epsilon"]["upper"].as_f64().unwrap();
    assert!(epsilon <= 2.0 && epsilon > 1.99 && solved["solved"].is_object(), "{solved}");
}

#[test]
fn curves_and_maps_are_drawn() {
    let address = started(STREET);
    for over in ["crop", "patch", "noise", "batch", "epochs"] {
        let (status, answer) = ask(&address, "curve", &json!({ "over": over }));
        assert_eq!(status, 200, "{answer}");
        let svg = answer["svg"].as_str().unwrap();
        assert!(svg.starts_with("<svg") && svg.contains("this plan") && !svg.contains("<script"), "{over}");
    }
    let (status, map) = ask(&address, "coverage", &json!({}));
    assert_eq!((status, &map["image"]), (200, &json!([2048, 1024])));
    assert_eq!(
        map["values"].as_array().unwrap().len() as u64,
        map["columns"].as_u64().unwrap() * map["rows"].as_u64().unwrap()
    );
    // The inclusion probability of the plan is that of the worst place, which the map shows.
    let (_, price) = ask(&address, "price", &json!({}));
    let worst = price["rates"]["inclusion_probability"].as_f64().unwrap();
    assert!((map["most"].as_f64().unwrap() - worst).abs() < 1e-6 * worst);
}

#[test]
fn mistakes_are_answered_in_words() {
    let address = started(STREET);
    for (question, word) in [
        (json!({ "set": { "sampling.bach": "10" } }), "sampling.batch"),
        (json!({ "set": { "sampling.batch": "many" } }), "batch"),
        (json!({ "set": { "pipeline.crop": "5000" } }), "crop"),
        (json!({ "plan": "[privacy" }), "TOML"),
        (json!({ "plan": format!("{STREET}\n[train]\nprivate = 3") }), "private"),
        (json!({ "unset": ["data.train"] }), "never left out"),
        (json!({ "over": "colour" }), "colour"),
        (json!({ "unknown": 1 }), "unknown"),
    ] {
        let what = if question.get("over").is_some() { "curve" } else { "price" };
        let (status, answer) = ask(&address, what, &question);
        assert_eq!(status, 422, "{question}");
        assert!(answer.to_string().contains(word), "{question}: {answer}");
    }
}

#[test]
fn no_question_opens_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let mask = folder.path().join("mask.png");
    std::fs::write(&mask, b"no picture").unwrap();
    let address = started(STREET);
    let named = json!({ "set": { "region.mask": mask.display().to_string() } });
    let (status, answer) = ask(&address, "price", &named);
    assert_eq!(status, 422);
    assert!(answer["problem"].as_str().unwrap().contains("opens none"), "{answer}");
    // Paths in sections that have no price are text, whether or not there is anything at them.
    let (status, _) = ask(&address, "price", &json!({ "set": { "data.train": "/no/such/folder" } }));
    assert_eq!(status, 200);
}

/// The README's plan as JSON: the same figures as on the command line, with the noise given and with the noise solved for.
#[test]
fn a_plan_in_json_is_priced_as_on_the_command_line() {
    let address = started(STREET);
    let plan = json!({
        "privacy": { "relation": "patch", "delta": "1/n", "noise_multiplier": 1.0 }, "region": { "patch": [10, 10] },
        "pipeline": { "image": [2048, 1024], "crop": [505, 505] },
        "sampling": { "scheme": "poisson", "batch": 200, "records": 2975, "epochs": 50 },
    });
    let (status, answer) = ask(&address, "account", &plan);
    assert_eq!(status, 200, "{answer}");
    // The README's bracket of 4.847 to 4.852, which is rounded outwards.
    let [lower, upper] = ["lower", "upper"].map(|end| answer["epsilon"][end].as_f64().unwrap());
    assert!((4.847..4.848).contains(&lower) && (4.851..=4.852).contains(&upper), "{answer}");
    assert_eq!(answer["plan_hash"], "b65865bc228ca84a8431426dc963133cff1b1c31d11e16f8e86dc848eadb6ef1");
    assert_eq!((&answer["relation"], &answer["steps"]), (&json!("patch"), &json!(750)));
    assert!(answer["assumptions"].is_array() && answer.get("solved").is_none());
    let mut open = plan.clone();
    open["privacy"] = json!({ "relation": "patch", "delta": "1/n", "epsilon": 2.0 });
    let (status, answer) = ask(&address, "account", &open);
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["solved"]["name"], "noise-multiplier");
    assert!(answer["epsilon"]["upper"].as_f64().unwrap() <= 2.0);
    for (key, section, word) in [
        ("region", json!({ "mask": "/etc/passwd" }), "opens none"),
        ("train", json!({ "private": false }), "without privacy"),
        ("colour", json!(1), "colour"),
    ] {
        let mut wrong = plan.clone();
        wrong[key] = section;
        let (status, answer) = ask(&address, "account", &wrong);
        assert_eq!(status, 422, "{answer}");
        assert!(answer["problem"].as_str().unwrap().contains(word), "{answer}");
    }
}

#[test]
fn only_the_page_is_heard() {
    let address = started(STREET);
    let (port, bearer) = (address.port, bearer(&address));
    let get = format!("GET {}", address.url.split_once(&port.to_string()).unwrap().1);
    let fine = request(&address, &get, "", "");
    assert_eq!(fine.status, 200);
    for header in [
        "content-security-policy: default-src 'none'",
        "referrer-policy: no-referrer",
        "cache-control: no-store",
        "cross-origin-resource-policy: same-origin",
    ] {
        assert!(fine.head.contains(header), "{}", fine.head);
    }
    assert!(!fine.head.contains("access-control-allow"), "no other page may read an answer");
    let question = "{}";
    let json = "content-type: application/json\r\n";
    let known = format!("{json}{bearer}");
    let wrong = format!("{json}authorization: Bearer 00000000000000000000000000000000\r\n");
    let price = "POST /api/price";
    for (line, headers, body, status) in [
        (get.as_str(), "host: example.org\r\n".to_owned(), "", 403),
        (&get, format!("host: example.org:{port}\r\n"), "", 403),
        (&get, "origin: http://example.org\r\n".to_owned(), "", 403),
        ("GET /page.js", String::new(), "", 200),
        ("GET /page.js", format!("host: example.org:{port}\r\n"), "", 403),
        (price, format!("{known}origin: null\r\n"), question, 403),
        (price, format!("{known}origin: http://127.0.0.1:{port}\r\n"), question, 200),
        // What a form of another page can send without asking.
        (price, format!("content-type: text/plain\r\n{bearer}"), question, 415),
        (price, bearer.clone(), question, 415),
        (price, known.clone(), question, 200),
        (price, json.to_owned(), question, 401),
        (price, wrong.clone(), question, 401),
        (price, format!("{known}{bearer}"), question, 401),
        ("POST /api/account", wrong, question, 401),
        ("GET /", String::new(), "", 404),
        ("GET /?token=00000000000000000000000000000000", String::new(), "", 404),
        ("GET /../../etc/passwd", bearer.clone(), "", 404),
        ("GET /page.rs", bearer.clone(), "", 404),
        ("PUT /api/price", known.clone(), question, 405),
        (price, known.clone(), &" ".repeat(1 << 17), 413),
    ] {
        let heard = request(&address, line, &headers, body);
        assert_eq!(heard.status, status, "{line} {headers}");
        assert!(!heard.body.contains("root:"));
    }
}
