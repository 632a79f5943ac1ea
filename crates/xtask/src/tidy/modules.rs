//! Arrows inside a large crate point one way too: the paragraphs of `mod` lines in its `lib.rs` are
//! layers, the lowest first, and a module uses only those of earlier paragraphs.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;

use super::{Problem, files, read};

/// Crates that are large enough to need it.
const CRATES: &[&str] = &["apiserver"];

pub(super) fn check(root: &Path) -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
    for name in CRATES {
        let source = root.join("crates").join(name).join("src");
        let layers = layers(&read(&source.join("lib.rs"))?);
        for path in files(&source, "rs")? {
            let first = path.strip_prefix(&source)?.components().next();
            let module = first.map(|it| it.as_os_str().to_string_lossy().into_owned());
            let module = module.unwrap_or_default();
            let module = module.trim_end_matches(".rs");
            let Some(own) = layers.get(module) else { continue };
            for used in used(&read(&path)?) {
                if used != module && layers.get(used.as_str()).is_some_and(|it| it >= own) {
                    let what = format!(
                        "`{module}` may not use `crate::{used}`: see the order in {name}'s lib.rs"
                    );
                    problems.push(Problem::new(&path, &what));
                }
            }
        }
    }
    Ok(problems)
}

/// The paragraph that each module is declared in.
fn layers(lib: &str) -> BTreeMap<String, usize> {
    let mut layers = BTreeMap::new();
    for (layer, paragraph) in lib.split("\n\n").enumerate() {
        let modules = paragraph.lines().filter_map(|it| it.trim().strip_suffix(';'));
        let modules = modules.filter_map(|it| it.split_once("mod ").map(|it| it.1));
        layers.extend(modules.map(|it| (it.to_owned(), layer)));
    }
    layers
}

/// What stands behind `crate::`.
fn used(source: &str) -> Vec<String> {
    let code = source.lines().filter(|it| !it.trim_start().starts_with("//"));
    let code: String = code.collect::<Vec<_>>().join("\n");
    let name = |text: &str| -> String {
        text.chars().take_while(|it| it.is_alphanumeric() || *it == '_').collect()
    };
    let mut used = Vec::new();
    for rest in code.split("crate::").skip(1) {
        match rest.strip_prefix('{') {
            None => used.push(name(rest)),
            // The outer names of a group alone: what is within inner braces belongs to them.
            Some(group) => {
                let mut depth = 0;
                let mut is_start = true;
                for (index, letter) in group.char_indices() {
                    match letter {
                        '{' => depth += 1,
                        '}' if depth == 0 => break,
                        '}' => depth -= 1,
                        ',' if depth == 0 => is_start = true,
                        _ if is_start && letter.is_alphabetic() => {
                            used.push(name(&group[index..]));
                            is_start = false;
                        }
                        _ => {}
                    }
                }
            }
        }
    }
    used
}

#[cfg(test)]
mod tests {
    use super::{layers, used};

    #[test]
    fn paragraphs_are_layers() {
        let layers = layers("//! x\n\nmod a;\npub mod b;\n\npub(crate) mod c;\n\npub use c::D;\n");
        assert_eq!(layers["a"], layers["b"]);
        assert!(layers["b"] < layers["c"]);
        assert_eq!(layers.len(), 3);
    }

    #[test]
    fn names_behind_crate_are_found() {
        let source =
            "use crate::a::B;\n// crate::no\nuse crate::{c, d::{self, E}, f as g};\ncrate::h();";
        assert_eq!(used(source), ["a", "c", "d", "f", "h"]);
    }
}
