//! The documentation, typed in: each command of each page is run on a machine of its own, and what
//! it prints is compared with what the page says.
//!
//! A page's blocks marked `console` are run in order. A line that begins with `# ` (or `$ `) is a
//! command, the lines below it are what it prints; see `compare` for what may differ. Two comments
//! steer the next block: `<!-- not run: WHY -->` leaves it out, `<!-- first: COMMAND -->` runs a
//! command that the reader does not need. `UPDATE_EXPECT=1` writes what was printed into the page,
//! to be read before it is committed.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says what it skips"
)]

mod compare;
mod machine;
mod page;

use std::path::{Path, PathBuf};

use machine::Machine;
use page::{Page, Step};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn check(name: &str) {
    let text = std::fs::read_to_string(docs().join(name)).unwrap();
    let page = Page::parse(&text).unwrap_or_else(|why| panic!("{name}: {why}"));
    assert!(page.steps.iter().any(|it| it.is_shown), "{name} has nothing to run");
    let Some(mut machine) = Machine::start() else { return };
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    // From the end, so that numbers of lines before stay right.
    let mut updates = Vec::new();
    for Step { line, command, expected, end, is_shown } in &page.steps {
        let printed = machine.run(command);
        let place = format!("{name}:{line}: {command}");
        if !is_shown {
            assert!(printed.is_ok, "{place}\n{}", printed.text);
            continue;
        }
        match compare::compare(expected, &printed.text) {
            Ok(()) => {}
            Err(_) if std::env::var_os("UPDATE_EXPECT").is_some() => {
                updates.push((end - expected.len()..*end, printed.text));
            }
            Err(difference) => panic!("{place}\n{difference}\nit printed:\n{}", printed.text),
        }
    }
    for (range, printed) in updates.into_iter().rev() {
        lines.splice(range, printed.trim_end().lines().map(str::to_owned));
        std::fs::write(docs().join(name), lines.join("\n") + "\n").unwrap();
    }
}

macro_rules! pages {
    ($($test:ident: $page:literal,)*) => {
        const PAGES: &[&str] = &[$($page),*];
        $(
            #[test]
            fn $test() {
                check($page);
            }
        )*
    };
}

pages! {
    access: "docs/access.md",
    backup: "docs/backup.md",
    images: "docs/images.md",
    quick_start: "docs/quick-start.md",
    several_clusters: "docs/several-clusters.md",
    several_nodes: "docs/several-nodes.md",
    troubleshooting: "docs/troubleshooting.md",
    upgrade: "docs/upgrade.md",
}

#[test]
fn every_page_with_commands_is_run() {
    let pages = std::fs::read_dir(docs().join("docs")).unwrap().flatten().map(|it| it.path());
    let pages = pages.filter(|it| it.extension().is_some_and(|it| it == "md"));
    let pages = pages.chain([docs().join("README.md")]);
    for path in pages {
        let text = std::fs::read_to_string(&path).unwrap();
        let page = Page::parse(&text).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let is_listed = PAGES.iter().any(|it| it.rsplit('/').next() == Some(name.as_str()));
        assert!(page.steps.is_empty() || is_listed, "{name} has commands that no test runs");
    }
}
