//! Every folder of a kind, a controller, a plugin or an operation is in the list beside it, and has
//! its tests: a module that is declared but in no list compiles, and does nothing.

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
        folder: "crates/network/src/paths",
        opening: "pub(crate) const ALL: &[&dyn Backend]",
        sign: "impl Backend for",
        entry: |folder| format!("&{folder}::"),
        has_tests: true,
    },
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
        opening: "pub const ALL: &[Entry]",
        sign: "impl Plugin for",
        entry: |folder| format!("({folder}::"),
        has_tests: false,
    },
    List {
        folder: "crates/kubelet/src/pod_worker/operations",
        opening: "pub(crate) enum Action",
        sign: "impl Operation for",
        entry: |folder| format!(" {0}({0}),", in_camel_case(folder)),
        has_tests: false,
    },
    List {
        folder: "crates/kubelet/src/admission",
        opening: "pub(crate) const HANDLERS: &[&dyn Handler]",
        sign: "impl Handler for",
        entry: |folder| format!("&{folder}::"),
        has_tests: false,
    },
    List {
        folder: "crates/kubelet/src/node_status/conditions",
        opening: "const SOURCES: &[&dyn Source]",
        sign: "impl Source for",
        entry: |folder| format!("&{folder}::"),
        has_tests: false,
    },
    List {
        folder: "crates/kubelet/src/volumes/plugins",
        opening: "const PLUGINS: &[&dyn Plugin]",
        sign: "impl Plugin for",
        entry: |folder| format!("&{folder}::"),
        has_tests: false,
    },
    List {
        folder: "crates/volumes/src/drivers",
        opening: "const DRIVERS: &[&dyn Driver]",
        sign: "impl Driver for",
        entry: |folder| format!("&{folder}::"),
        has_tests: false,
    },
];

/// The groups of kinds, and the one list of them all.
const GROUPS: &str = "crates/api/src";
const SERVED: &str = "crates/api/src/served.rs";

pub(super) fn check(root: &Path) -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
    for list in LISTS {
        problems.extend(list.check(&root.join(list.folder))?);
    }
    problems.extend(check_kinds(&root.join(GROUPS), &root.join(SERVED))?);
    Ok(problems)
}

/// A folder with an `impl Resource` that is not served compiles, and does nothing. (A kind that is
/// served and has no folder does not compile.)
fn check_kinds(groups: &Path, list: &Path) -> Result<Vec<Problem>> {
    let text = read(list)?;
    // `rbac::v1::ClusterRole,` is the kind of `rbac/cluster_role`, and
    // `events::v1::Event as core::v1::Event,` that of `events/event`.
    let served: Vec<(&str, String)> = text
        .lines()
        .filter_map(|it| it.trim().strip_suffix(',')?.split_once("::"))
        .filter_map(|(group, rest)| {
            let (_, kind) = rest.split_once("::")?;
            Some((group, kind.split(' ').next()?.to_lowercase()))
        })
        .collect();
    let mut problems = Vec::new();
    for group in folders(groups)? {
        let declared = read(&group.join("mod.rs"))?;
        for folder in folders(&group)? {
            let mut report = |what: &str| problems.push(Problem::new(&folder, what));
            if !declared.contains(&format!("mod {};", name_of(&folder))) {
                report(&format!("is not declared in {}", group.join("mod.rs").display()));
            }
            let kind = name_of(&folder).replace('_', "");
            let is_served = served.contains(&(&*name_of(&group), kind));
            if !is_served && read(&folder.join("mod.rs"))?.contains("impl Resource for") {
                let what = format!("has a kind that is missing in {}", list.display());
                report(&what);
            }
        }
    }
    Ok(problems)
}

/// `stop_sandbox` as `StopSandbox`.
fn in_camel_case(name: &str) -> String {
    let capitalized = |word: &str| word[..1].to_ascii_uppercase() + &word[1..];
    name.split('_').filter(|it| !it.is_empty()).map(capitalized).collect()
}

fn name_of(folder: &Path) -> String {
    folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
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
            let name = name_of(&path);
            let mut report = |what: &str| problems.push(Problem::new(&path, what));
            if !text.contains(&format!("mod {name};")) {
                report(&format!("is not declared in {}", file.display()));
            }
            if !read(&path.join("mod.rs"))?.contains(self.sign) {
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{List, body, check_kinds};

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
    }

    #[test]
    fn a_kind_that_is_not_served_is_found() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(
            "served.rs",
            "served! {\n    storage::v1::CSIDriver,\n    events::v1::Event as core::v1::Event,\n}\n",
        );
        write("events/mod.rs", "mod event;\n");
        write("events/event/mod.rs", "impl Resource for Event");
        write("storage/mod.rs", "mod csi_driver;\nmod csi_node;\n");
        write("storage/csi_driver/mod.rs", "impl Resource for CSIDriver");
        write("storage/csi_node/mod.rs", "impl Resource for CSINode");
        write("core/mod.rs", "mod event;\nmod pod_spec;\n");
        write("core/event/mod.rs", "impl Resource for Event");
        write("core/pod_spec/mod.rs", "");
        write("core/secret/mod.rs", "");
        let problems = check_kinds(root.path(), &root.path().join("served.rs")).unwrap();
        let own = root.path().display().to_string() + "/";
        let found: Vec<String> = problems.into_iter().map(|it| it.0.replace(&own, "")).collect();
        assert_eq!(
            found,
            [
                "core/event: has a kind that is missing in served.rs",
                "core/secret: is not declared in core/mod.rs",
                "storage/csi_node: has a kind that is missing in served.rs",
            ]
        );
    }
}
