//! `kubectl edit`, with a script in the editor's place.

use crate::cluster::{Cluster, Ran};

/// What the editor does with the file.
fn edit(cluster: &Cluster, script: &str, arguments: &[&str]) -> Ran {
    let editor = cluster.file("editor.sh", &format!("sed -i '{script}' \"$1\"\n"));
    let folder = cluster.path("edits");
    std::fs::create_dir_all(&folder).unwrap();
    let mut command = cluster.command(&[&["edit"], arguments].concat());
    let output =
        command.env("KUBE_EDITOR", format!("sh {editor}")).env("TMPDIR", &folder).output().unwrap();
    Ran {
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        is_ok: output.status.success(),
    }
}

fn kept(cluster: &Cluster) -> Vec<String> {
    let files = std::fs::read_dir(cluster.path("edits")).unwrap();
    files.map(|it| std::fs::read_to_string(it.unwrap().path()).unwrap()).collect()
}

#[test]
fn what_the_editor_changes_is_written() {
    let Some(cluster) = Cluster::start(0) else { return };
    cluster.ok(&["create", "configmap", "fruit", "--from-literal=color=green"]);
    let edited = edit(&cluster, "s/color: green/color: red/", &["configmap", "fruit"]);
    assert_eq!((edited.is_ok, &*edited.stdout), (true, "configmap/fruit edited\n"));
    let color = || cluster.ok(&["get", "configmap", "fruit", "-o", "jsonpath={.data.color}"]);
    assert_eq!(color(), "red");
    let untouched = edit(&cluster, "s/yellow/blue/", &["configmap", "fruit"]);
    assert!(untouched.is_ok && untouched.stderr.contains("Edit cancelled, no changes made."));
    assert_eq!(color(), "red");
    assert_eq!(kept(&cluster), Vec::<String>::new());

    // Several at once.
    cluster.ok(&["create", "configmap", "tree", "--from-literal=color=green"]);
    let edited = edit(&cluster, "s/color: [a-z]*/color: brown/", &["configmap/fruit", "cm/tree"]);
    assert_eq!(edited.stdout, "configmap/fruit edited\nconfigmap/tree edited\n");
    assert_eq!(color(), "brown");
}

#[test]
fn an_edit_that_is_refused_keeps_the_text() {
    let Some(cluster) = Cluster::start(0) else { return };
    cluster.ok(&["create", "deployment", "web", "--image=xebec.local/toolbox"]);
    let selector = "/matchLabels:/,+1 s/app: web/app: other/";
    let refused = edit(&cluster, selector, &["deployment", "web"]);
    assert!(!refused.is_ok, "{}", refused.stdout);
    let why = "field is immutable";
    let said = [
        r#"deployments.apps "web" is invalid"#,
        "A copy of your changes has been stored to ",
        "Edit cancelled, no valid changes were saved.",
    ];
    for expected in said {
        assert!(refused.stderr.contains(expected), "{}", refused.stderr);
    }
    let kept = kept(&cluster);
    assert!(!kept.is_empty());
    for text in &kept {
        assert!(text.contains("matchLabels:\n      app: other"), "{text}");
    }
    // With the reason above it, for the next attempt.
    let says_why = |it: &&str| it.starts_with('#') && it.contains(why);
    assert!(kept.iter().any(|it| it.lines().any(|it| says_why(&it))), "{kept:?}");
    let path = "jsonpath={.spec.selector.matchLabels.app}";
    assert_eq!(cluster.ok(&["get", "deployment", "web", "-o", path]), "web");
}
