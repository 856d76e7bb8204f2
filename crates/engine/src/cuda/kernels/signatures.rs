//! Compares the declarations with the sources, for which no card is needed.

use std::collections::BTreeMap;

use super::declare::Declaration;
use super::{ATTENTION, GROUPS, SOURCES};

/// The types of each kernel's parameters, by the kernel's name.
type Signatures = BTreeMap<String, Vec<String>>;

/// A macro with parameters whose body makes kernels.
struct Macro {
    parameters: Vec<String>,
    body: String,
}

fn is_name(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// The text between the parenthesis with which `text` begins and the one that closes it, and the text after that.
fn parenthesised(text: &str) -> (&str, &str) {
    let mut depth = 0;
    for (at, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return (&text[1..at], &text[at + 1..]);
        }
    }
    panic!("an open parenthesis: {text}");
}

fn listed(text: &str) -> Vec<String> {
    text.split(',').map(|part| part.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// The body of a macro with arguments in the place of its parameters, and with the names joined that `##` joins.
fn expanded(definition: &Macro, arguments: &[String]) -> String {
    assert_eq!(definition.parameters.len(), arguments.len());
    let mut result = String::new();
    let mut rest = definition.body.as_str();
    while let Some(start) = rest.find(is_name) {
        let len = rest[start..].find(|character| !is_name(character)).unwrap_or(rest.len() - start);
        let name = &rest[start..start + len];
        let place = definition.parameters.iter().position(|parameter| parameter == name);
        result.push_str(&rest[..start]);
        result.push_str(place.map_or(name, |place| &arguments[place]));
        rest = &rest[start + len..];
    }
    result.push_str(rest);
    result.replace("##", "")
}

/// A source without comments, in which the macros that make kernels are expanded.
fn preprocessed(source: &str) -> String {
    let bare: Vec<&str> =
        source.lines().map(|line| line.split_once("//").map_or(line, |(code, _)| code)).collect();
    let joined = bare.join("\n").replace("\\\n", " ");
    let mut macros: BTreeMap<String, Macro> = BTreeMap::new();
    let mut lines: Vec<String> = joined.lines().rev().map(String::from).collect();
    let mut result = String::new();
    while let Some(line) = lines.pop() {
        let name_end = |text: &str| text.find(|character| !is_name(character)).unwrap_or(text.len());
        if let Some(definition) = line.strip_prefix("#define ") {
            let (name, rest) = definition.split_at(name_end(definition));
            if rest.starts_with('(') && (rest.contains("__global__") || rest.contains("IMAGE_WEIGHT")) {
                let (parameters, body) = parenthesised(rest);
                let made = Macro { parameters: listed(parameters), body: body.into() };
                macros.insert(name.into(), made);
            }
            continue;
        }
        // Uses of a macro stand at the beginning of a line, or after one another.
        let used = line.trim_start();
        match macros.get(&used[..name_end(used)]) {
            Some(definition) => {
                let (arguments, rest) = parenthesised(&used[name_end(used)..]);
                let body = expanded(definition, &listed(arguments));
                let nested = macros
                    .keys()
                    .fold(body, |body, name| body.replace(&format!("{name}("), &format!("\n{name}(")));
                lines.push(rest.into());
                lines.extend(nested.lines().rev().map(String::from));
            }
            None => result.push_str(&(line + "\n")),
        }
    }
    result.replace("KERNEL ", "extern \"C\" __global__ void ")
}

/// The kernels of a source, as the source has them.
fn signatures(source: &str) -> Signatures {
    let text = preprocessed(source);
    let mut found = Signatures::new();
    for kernel in text.split("extern \"C\" __global__ void").skip(1) {
        let kernel = kernel.trim_start();
        let bounded = kernel.strip_prefix("__launch_bounds__");
        let kernel = bounded.map_or(kernel, |bounds| parenthesised(bounds).1.trim_start());
        let (name, rest) = kernel.split_at(kernel.find('(').expect("a list of parameters"));
        let types = listed(parenthesised(rest).0).into_iter().map(|parameter| {
            let named = parameter.trim_end_matches(is_name).trim_end();
            named.replace("__restrict__", "").trim_end().to_owned()
        });
        assert_eq!(found.insert(name.into(), types.collect()), None, "{name} is there twice");
    }
    found
}

/// The kernels of a source, as the host declares them.
fn declared(declarations: &[Declaration]) -> Signatures {
    let each = |declaration: &Declaration| {
        let types: Vec<String> = declaration.parameters.iter().map(|&name| name.into()).collect();
        declaration.names.iter().map(move |&name| (name.into(), types.clone())).collect::<Vec<_>>()
    };
    declarations.iter().flat_map(each).collect()
}

#[test]
fn every_kernel_is_declared_as_its_source_has_it() {
    let sources = || SOURCES.into_iter().chain([ATTENTION, GROUPS]);
    for (source, declarations) in sources() {
        assert_eq!(declared(declarations), signatures(source));
    }
    assert_eq!(sources().map(|(source, _)| signatures(source).len()).sum::<usize>(), 113);
}

/// The types, the order and the number of parameters all count, and so does a kernel that is missing or too many.
#[test]
fn a_source_that_says_otherwise_is_told_apart() {
    let (source, declarations) = SOURCES[1];
    for (from, to) in [
        ("unary(int op, const float* x, float* y, i64 n,", "unary(int op, const float* x, float* y, int n,"),
        ("unary(int op, const float* x, float* y, i64 n,", "unary(const float* x, int op, float* y, i64 n,"),
        ("unary(int op, const float* x, float* y, i64 n,", "unary(int op, float* x, float* y, i64 n,"),
        ("unary(int op, const float* x, float* y, i64 n,", "unary(int op, const float* x, float* y,"),
        ("KERNEL unary(", "KERNEL uniary("),
        ("KERNEL unary(", "__device__ void unary("),
        ("KERNEL unary(", "KERNEL other(int n) {}\nKERNEL unary("),
    ] {
        let doctored = source.replace(from, to);
        assert_ne!(doctored, source);
        assert_ne!(declared(declarations), signatures(&doctored), "{to}");
    }
    let image = SOURCES.iter().find(|(source, _)| source.contains("IMAGE_WEIGHT"));
    let (image, declarations) = image.expect("the source of convolutions over images");
    let doctored =
        image.replace("const int* offsets, i64 stride, int views", "const int* offsets, int views");
    assert_ne!(declared(declarations), signatures(&doctored));
}
