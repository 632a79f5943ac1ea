//! The host's own program, which a container can get hold of by executing `/proc/self/exe`
//! (CVE-2019-5736): it cannot write to it, however it is reached.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::cluster::pod as toolbox;
use crate::shell::{self, pod};

const PROGRAM: &str = env!("CARGO_BIN_EXE_xebec");

/// What changes when somebody writes to it.
fn state() -> (u64, u64, i64, i64, u32) {
    let it = std::fs::metadata(PROGRAM).unwrap();
    (it.ino(), it.size(), it.mtime(), it.mtime_nsec(), it.permissions().mode())
}

#[test]
fn a_container_cannot_write_to_the_program_that_started_it() {
    let Some(cluster) = shell::cluster() else { return };
    let before = state();
    let root = shell::root(&cluster, "exe").unwrap();
    // With what the loader needs to start it; a real attacker would bring libraries of their own.
    let needs = Command::new("ldd").arg(PROGRAM).output().unwrap();
    let needs = String::from_utf8_lossy(&needs.stdout).into_owned();
    for library in needs.split_whitespace().filter(|it| it.starts_with('/')) {
        let to = root.join(library.trim_start_matches('/'));
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(library, to).unwrap();
    }
    // Called by this name the program is one that sleeps.
    symlink("/proc/self/exe", root.join("bin/toolbox")).unwrap();
    std::fs::write(root.join("bin/script"), "#!/proc/self/exe\n").unwrap();
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(root.join("bin/script"), mode).unwrap();
    shell::load(&cluster, "local/exe:1", &root, &json!({"Env": ["PATH=/bin"]}));
    let container = |command: &[&str]| json!({ "image": "local/exe:1", "command": command });

    cluster.apply_json(&pod("link", &json!({}), &container(&["toolbox", "sleep"])));
    cluster.wait_ready("app=link", 1);
    let size = std::fs::metadata(PROGRAM).unwrap().len();
    assert_eq!(cluster.sh("link", "wc -c < /proc/1/exe"), format!("{size}\n"), "it is the host's");
    // A program that runs is also "busy", which is no promise: some kernels have left it out.
    for (way, expected) in [
        ("chmod 777 /proc/1/exe", "Read-only file system"),
        ("touch -c /proc/1/exe", "Read-only file system"),
        (": >> /proc/1/exe", "can't create"),
        ("exec 3< /proc/1/exe; : >> /proc/self/fd/3", "can't create"),
        ("dd if=/dev/zero of=/proc/1/exe bs=1 count=1 conv=notrunc", "can't open"),
    ] {
        let said = cluster.sh("link", &format!("({way}) 2>&1; true"));
        assert!(said.contains(expected), "{way}: {said}");
    }
    let never = json!({ "restartPolicy": "Never" });
    cluster.apply_json(&pod("script", &never, &container(&["script"])));
    cluster.until(&["get", "pod", "script", "-o", "jsonpath={.status.phase}"], |it| it == "Failed");
    // A command is set up where `/proc` does not show it.
    let refused = cluster.refused(&["exec", "link", "--", "/proc/self/exe"]);
    assert!(refused.contains("no such file or directory"), "{refused}");
    // Unless a script says so, and then it is the same one.
    let refused = cluster.refused(&["exec", "link", "--", "script"]);
    assert!(refused.contains("unrecognized subcommand '/bin/script'"), "{refused}");

    // The image that the binary offers of itself has the file, but not the host's.
    cluster.apply("own.yaml", &toolbox("own", "[sleep]", ""));
    cluster.wait_ready("app=own", 1);
    // Whatever these say: some is refused, some changes the container's copy.
    for way in [["touch", "/bin/toolbox"], ["rm", "/bin/toolbox"]] {
        cluster.run(&[&["exec", "own", "--"], &way[..]].concat());
    }
    assert_eq!(state(), before);
    assert!(Path::new(PROGRAM).exists());
}
