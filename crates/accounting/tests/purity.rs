//! This crate touches nothing outside a computation, and the checker that says so can tell.
#![allow(clippy::unwrap_used, reason = "a test")]

mod pure;

use pure::{assert_pure, impurity, paths};

#[test]
fn the_crate_stays_pure() {
    assert_pure("accounting");
}

#[test]
fn whatever_reaches_outside_is_found() {
    for (source, found) in [
        ("use std::fs;", "std::fs"),
        ("use std::{fs, time};", "std::fs"),
        ("use std::{fmt, time::{self, Instant}};", "std::time::self"),
        ("use ::std::{collections::BTreeMap, thread as workers};", "std::thread"),
        ("pub(crate) use std :: env ;", "std::env"),
        ("use std::*;", "std::*"),
        ("use std as everything;", "std"),
        ("use std::{self as everything};", "std::self"),
        ("extern crate std as everything;", "std"),
        ("fn now() -> std::time::Instant { todo!() }", "std::time::Instant"),
        ("fn f() { let x = 1; std::fs::read(\"a\"); }", "std::fs::read"),
        ("fn f() { use std::io::Write as _; }", "std::io::Write"),
        ("use rayon::prelude::*;", "rayon::prelude::*"),
        ("fn f() -> impl Iterator<Item = u8> + use<'_> { rand::random() }", "rand::random"),
        ("let c = '\"'; use std::process;", "std::process"),
        ("let s = r#\"\"#; use std::net::{IpAddr};", "std::net::IpAddr"),
        ("/* /* */ */ use std::os;", "std::os"),
    ] {
        assert_eq!(impurity(source).as_deref(), Some(found), "{source}");
    }
}

#[test]
fn what_stays_inside_is_not() {
    for source in [
        "use std::{fmt, collections::BTreeMap, sync::Arc};",
        "// use std::fs;\nuse std::fmt;",
        "/* std::fs::read */ /// std::time::Instant",
        "const A: &str = \"use std::fs;\";",
        "const A: &str = r#\"a \" std::fs::read\"#; const B: &[u8] = b\"std::fs::read\";",
        "const QUOTE: char = '\\''; fn f<'a>(time: &'a f64) -> &'a f64 { time }",
        "let fs = steps; use crate::time::{self, env};",
        "fn f(rng: my::rand::Rng) {}",
        "pub(crate) struct Normalise { mean: f64, std: f64 }",
    ] {
        assert_eq!(impurity(source), None, "{source}");
    }
}

#[test]
fn trees_are_written_out() {
    let found: Vec<String> = paths("use a::{b, c::{d as e, f::*}, self,}; use g; h::i()")
        .iter()
        .map(|path| path.join("::"))
        .collect();
    assert_eq!(found, ["a::b", "a::c::d", "a::c::f::*", "a::self", "g", "h::i"]);
}
