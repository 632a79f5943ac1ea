//! Every folder of a kind, a controller or a plugin is in the list beside it, and has its tests: a module that is declared but in
//! no list compiles, and does nothing.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::{Problem, read};

/// A file with a list, and the folders beside it that must be in it.
struct List {
    /// The folder of folders; its mod.rs or lib.rs has the list.
    folder: &'static str,
    /// How the list begins; it ends with the next line that is not indented.
    opening: &'static str,
    /// What tells a folder that belongs into the list from others, by its mod.rs.
    sign: &'static str,
    /// How a folder is named in the list.
    entry: fn(&str) -> String,
    has_tests: bool,
}

const LISTS: &[List] = &[
    List {
        folder: "crates/controllers/src",
        opening: "pub const ALL: &[Descriptor]",
        sign: "const DESCRIPTOR: Descriptor",
        entry: |folder| format!(" {folder}::DESCRIPTOR,"),
        has_tests: true,
    },
    List {
        folder: "crates/scheduler/src/plugins",
        opening: "pub const ALL: &[&dyn Plugin]",
        sign: "impl Plugin for",
        entry: |folder| format!("&{folder}::"),
        has_tests: true,
    },
    List {
        folder: "crates/admission/src/plugins",
        opening: "pub fn all(",
        sign: "impl Plugin for",
        entry: |folder| format!("({folder}::"),
        has_tests: false,
    },
    List {
        folder: "crates/api/src",
        opening: "pub fn kinds()",
        sign: "fn kinds()",
        entry: |folder| format!(" {folder}::kinds(),"),
        has_tests: false,
    },
];

/// The groups of kinds have a list each.
const GROUPS: &str = "crates/api/src";

fn group(folder: &'static str) -> List {
    List {
        folder,
        opening: "fn kinds()",
        sign: "impl Resource for",
        entry: |folder| format!("Typed::<{}>", camel_case(folder)),
        has_tests: false,
    }
}

/// Kinds that are the bodies of subresources alone: no list of resources has them.
const BODIES: &[&str] = &["eviction", "scale", "token_request"];

pub(super) fn check(root: &Path) -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
    for list in LISTS {
        problems.extend(list.check(&root.join(list.folder))?);
    }
    for folder in folders(&root.join(GROUPS))? {
        if read(&folder.join("mod.rs"))?.contains("fn kinds()") {
            problems.extend(group(GROUPS).check(&folder)?);
        }
    }
    Ok(problems)
}

impl List {
    fn check(&self, folder: &Path) -> Result<Vec<Problem>> {
        let file =
            [folder.join("mod.rs"), folder.join("lib.rs")].into_iter().find(|it| it.exists());
        let Some(file) = file else {
            return Ok(vec![Problem::new(folder, "has no mod.rs or lib.rs that lists its parts")]);
        };
        let text = read(&file)?;
        let Some(list) = body(&text, self.opening) else {
            return Ok(vec![Problem::new(&file, &format!("has no list `{}`", self.opening))]);
        };
        let mut problems = Vec::new();
        for path in folders(folder)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let mut report = |what: &str| problems.push(Problem::new(&path, what));
            if !text.contains(&format!("mod {name};")) {
                report(&format!("is not declared in {}", file.display()));
            }
            if BODIES.contains(&name.as_str()) || !read(&path.join("mod.rs"))?.contains(self.sign) {
                continue;
            }
            if !list.contains(&(self.entry)(&name)) {
                report(&format!("is missing in `{}` of {}", self.opening, file.display()));
            }
            if self.has_tests && !path.join("tests.rs").exists() {
                report("has no tests.rs");
            }
        }
        Ok(problems)
    }
}

fn folders(parent: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(parent)? {
        found.push(entry?.path());
    }
    found.retain(|it| it.is_dir());
    found.sort();
    Ok(found)
}

/// The lines of the list that begins with `opening`.
fn body<'a>(text: &'a str, opening: &str) -> Option<&'a str> {
    let list = &text[text.find(opening)?..];
    let lines = list.match_indices('\n').map(|(at, _)| &list[at + 1..]);
    let end = lines.into_iter().find(|it| it.starts_with("];") || it.starts_with('}'))?;
    Some(&list[..list.len() - end.len()])
}

fn camel_case(name: &str) -> String {
    let capital = |word: &str| word[..1].to_uppercase() + &word[1..];
    name.split('_').filter(|it| !it.is_empty()).map(capital).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{List, body, camel_case};

    const LIST: List = List {
        folder: "",
        opening: "const ALL",
        sign: "impl Part",
        entry: |folder| format!("{folder}::PART"),
        has_tests: true,
    };

    /// The problems of `mod.rs` with these folders, each `name content-of-mod.rs`.
    fn check(list: &str, folders: &[&str]) -> Vec<String> {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("mod.rs"), list).unwrap();
        for folder in folders {
            let (name, content) = folder.split_once(' ').unwrap();
            fs::create_dir(root.path().join(name)).unwrap();
            fs::write(root.path().join(name).join("mod.rs"), content).unwrap();
            fs::write(root.path().join(name).join("tests.rs"), "").unwrap();
        }
        let problems = LIST.check(root.path()).unwrap();
        let own = root.path().display().to_string() + "/";
        problems.into_iter().map(|it| it.0.replace(&own, "")).collect()
    }

    #[test]
    fn a_part_that_is_declared_but_not_listed_is_found() {
        let list = "mod a;\nmod b;\nmod c;\nconst ALL: X = &[\n    a::PART,\n];\nuse b::PART;\n";
        let found = check(list, &["a impl Part", "b impl Part", "c nothing"]);
        assert_eq!(found, ["b: is missing in `const ALL` of mod.rs"]);
    }

    #[test]
    fn a_folder_that_is_not_declared_and_a_list_that_is_gone_are_found() {
        let found = check("const ALL: X = &[\n    a::PART,\n];\n", &["a impl Part"]);
        assert_eq!(found, ["a: is not declared in mod.rs"]);
        assert_eq!(check("mod a;\n", &["a impl Part"]), ["mod.rs: has no list `const ALL`"]);
    }

    #[test]
    fn a_list_ends_where_its_indentation_does() {
        assert_eq!(body("fn all() {\n    a\n}\nb", "fn all("), Some("fn all() {\n    a\n"));
        assert_eq!(body("fn all() {\n    a", "fn all("), None);
        assert_eq!(camel_case("cluster_role_binding"), "ClusterRoleBinding");
    }
}
